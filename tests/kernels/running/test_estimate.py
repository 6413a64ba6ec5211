"""Estimated time of a case: a fixed part, its calls, and nothing if it is skipped."""

import pytest

from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.running.estimate import CALLS, FIXED_S, NOTHING_S, START_S, case_cost_s
from kernels.suites import cases_of
from tests.support.saved_documents import ceiling

METHOD = Method(Device("cpu", 2, 32 << 20))
WHOLE_S = 180.0


@pytest.mark.parametrize(
    ("case", "seconds"),
    [
        (Case.of("gemm", m=1000, n=1000, k=1000), FIXED_S + CALLS * 0.02),  # 2 GFLOP at 0.1 TFLOP/s
        (Case.of("gemm", m=10**5, n=10**5, k=10**5), NOTHING_S),  # longer than --case-limit
        (Case("softmax", Case.of("softmax", rows=1, width=1).kernel, "int8"), NOTHING_S),
    ],
)
def test_a_case_takes_its_calls_and_a_fixed_time(case: Case, seconds: float) -> None:
    known = ceiling() | {"call_us": 1.0}
    assert case_cost_s(case, known, METHOD) == pytest.approx(seconds)  # type: ignore[arg-type]


def test_quick_takes_less_than_three_minutes_on_two_modest_cores() -> None:
    ceilings_s = 32.0
    assert START_S + ceilings_s + sum(case_cost_s(case, None, METHOD) for case in cases_of("quick")) < WHOLE_S
