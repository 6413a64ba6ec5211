"""The clock of a run's answers, by the share of them to which the kernel gave a stamp that holds."""

import pytest

from loadgen.evaluation.evidence import receive_clock
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.kernel_clock import KernelClock


def recorded(answered: int, clock: KernelClock | None) -> Recorder:
    recorder = Recorder(Interval(0, 1_000_000_000, 1))
    recorder.answered, recorder.clock = answered, clock
    return recorder


@pytest.mark.parametrize(
    ("missing", "refused", "found"),
    [(0, 0, "kernel"), (5, 5, "kernel"), (6, 5, "both"), (999, 0, "both"), (1000, 0, "process"), (4000, 0, "process")],
)
def test_the_clock_is_the_kernels_where_nearly_all_answers_have_its_stamp(
    missing: int, refused: int, found: str
) -> None:
    clock = KernelClock()
    clock.missing, clock.refused = missing, refused
    assert receive_clock(recorded(1000, clock)) == found


def test_a_model_in_this_process_has_the_process_clock() -> None:
    assert receive_clock(recorded(1000, None)) == "process"
