"""Pages of the zoo's kernels: distances by hand, counts by distance, and the rows."""

import math
from typing import Any

import pytest

from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.tools import zoo
from kernels.tools.zoo import distance
from kernels.tracing.calls import Call
from kernels.tracing.workload import Trace, document, kernels
from servemark.machine.own_process import OwnProcess

CONVOLUTION: dict[str, Any] = {"n": 1, "c": 64, "k": 64, "size": (56, 56), "filter": (3, 3), "padding": (1, 1)}
OTHERS = [
    Case.of("gemm", m=512, n=8, k=1024).kernel,
    Case.of("convolution", **CONVOLUTION | {"n": 8}).kernel,
    Case.of("recurrent", cell="lstm", hidden=512, batch=4, timesteps=25).kernel,
    Case.of("all_reduce", length=8, ranks=2).kernel,
]


@pytest.mark.parametrize(
    ("case", "apart"),
    [
        (Case.of("gemm", m=512, n=8, k=1024, a_t=True), 0.0),
        (Case.of("gemm", m=8, n=1024, k=1024), 1.0),  # m and n change places
        (Case.of("gemm", m=512, n=8, k=1024, batch=2), math.inf),
        (Case.of("fully_connected", batch=2, inputs=1024, outputs=512), 2.0),
        (Case.of("convolution", **CONVOLUTION), 3.0),
        (Case.of("convolution", **CONVOLUTION, direction="backward_data"), math.inf),
        (Case.of("recurrent", cell="lstm", hidden=512, batch=4, timesteps=100), 2.0),
        (Case.of("recurrent", cell="gru", hidden=512, batch=4, timesteps=25), math.inf),
        (Case.of("softmax", rows=1, width=8), None),
    ],
    ids=str,
)
def test_the_distance_is_that_of_the_size_that_is_farthest(case: Case, apart: float | None) -> None:
    assert distance(case.kernel, OTHERS) == apart


@pytest.fixture
def _two_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = Case.of("gemm", m=1760, n=16, k=1760), Case.of("gemm", m=9, n=9, k=9, batch=3)
    calls = [
        Call("aten::mm", (near,)),
        Call("aten::mm", (near,)),
        Call("aten::bmm", (far,)),
        Call("aten::topk", reason=""),
    ]
    trace = Trace(kernels(calls, "x"), document("x", 1, calls, 2e-3, [0.2, 0.2, 0.1, 0.1]))
    monkeypatch.setattr(zoo, "traces", lambda *_, **__: iter([("x", trace), ("y", "too large")]))


@pytest.mark.usefixtures("_two_workloads")
def test_coverage_counts_flops_by_distance() -> None:
    lines = list(zoo.coverage("tiny", 1))
    [row] = [line for line in lines if line.startswith("| x")]
    # 3 of 4 calls, and all FLOPs but 4,374 at distance 0
    assert row == "| x | 4 | 75% | 0.198 G | 100% | 100% | 100% | 100% | 0.00 | inf |"
    assert "- y was skipped: too large" in lines
    assert "100% are in kernels of DeepBench" in lines[-1]


def test_a_kernel_that_cannot_run_has_no_time() -> None:
    class Broken(OwnProcess):
        def run(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("CudnnError: no")

    assert zoo._median_ms(Broken(), Case.of("softmax", rows=1, width=8), Method(Device("cpu", 2, 32 << 20))) is None


@pytest.mark.usefixtures("_two_workloads")
def test_the_parts_of_a_latency_are_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "_median_ms", lambda _, case, __: 0.3 if case.kernel == OTHERS[0] else 0.1)
    lines = list(zoo.explained("tiny", 1, (), 0.1, 60))
    [row] = [line for line in lines if line.startswith("| x")]
    assert row == "| x | 2 | 3 | 15% | 35% | 10% | 40% | 1 x `aten::topk` |"
    assert "| y | skipped: too large | | | | | | |" in lines
