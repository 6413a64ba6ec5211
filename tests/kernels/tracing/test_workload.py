"""A workload's kernels and its latency's parts: by hand from a profile's tree, and of a tiny model from end to end."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels import running
from kernels.measurement import measure
from kernels.measurement.case import Case
from kernels.measurement.device import Device
from kernels.measurement.measure import Samples
from kernels.tracing import workload
from kernels.tracing.calls import Call
from kernels.tracing.workload import Trace, document, kernels, matched, shares_of, trace_apart
from servemark.errors import OptionError, ServemarkError, ServerError
from servemark.machine import own_process
from servemark.results.schema.header import reason_of
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.documents import validated
from tests.support.in_process import call_here
from tests.support.saved_documents import ceiling

RELU, COPY = (Case.of("activation", function="relu", length=8), Case.of("memory", operation="copy", length=8))
CALLS = [
    Call("aten::relu", (RELU,)),
    Call("aten::amax", reason=""),
    Call("aten::relu", (RELU,)),
    Call("aten::lstm_part", (COPY, COPY)),
    Call("aten::add"),
]


def event(name: str, start: int, us: float, *children: Any) -> Any:
    return SimpleNamespace(
        name=name, time_range=SimpleNamespace(start=start), cpu_time_total=us, cpu_children=list(children)
    )


def test_each_kernel_once_with_its_count() -> None:
    assert [(str(case), case.count) for case in kernels(CALLS, "x")] == [(str(RELU), 2), (str(COPY), 2)]


def test_a_profile_is_matched_in_order_and_at_any_depth() -> None:
    roots = [
        event("aten::linear", 5, 9, event("aten::amax", 7, 4), event("aten::t", 6, 1)),
        event("aten::relu", 1, 2, event("aten::clamp_min", 2, 1)),
        event("aten::relu", 20, 3),
    ]
    assert matched(CALLS[:3], roots) == pytest.approx([2e-6, 4e-6, 3e-6])
    assert matched(CALLS, roots) is None


def test_the_parts_make_up_the_latency() -> None:
    found = document("x", 4, CALLS, 2e-3, [0.1, 0.2, 0.1, 0.2, 0.1])
    assert (found["calls"], found["kernels"], found["latency_ms"]) == (5, 4, 2.0)
    assert found["mapped_ms"] == pytest.approx(1.0)
    assert found["unmapped_ms"] == pytest.approx(0.4)
    assert found["between_ms"] == pytest.approx(0.6)
    assert found["unmapped"] == [{"operator": "aten::amax", "count": 1, "ms": pytest.approx(0.4)}]
    unknown = document("x", 4, CALLS, 2e-3, None)
    assert (unknown["between_ms"], unknown["unmapped"][0]["ms"]) == (None, None)
    assert "follows a CPU only" in str(reason_of(unknown, "between_ms"))


def test_shares_of_a_real_run() -> None:
    import torch

    data = torch.randn(100, 100)

    def product() -> object:
        return (data @ data).amax()

    shares = shares_of([Call("aten::mm"), Call("aten::amax")], product)
    assert shares is not None
    assert 0 < sum(shares) <= 1
    assert shares_of([Call("aten::mm")] * 2, product) is None


def test_a_tiny_workload_from_the_command_line(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_here(monkeypatch)
    monkeypatch.setattr(running, "ceiling_of", lambda *_: ceiling())
    monkeypatch.setattr(measure, "time_on_cpu", lambda *_: Samples((1e-3,) * 30, calls=1))
    done = servemark("kernels", "--workload", "ranking_tiny", "-b", "2", "--out", str(tmp_path))
    assert done.code == 0, done.err
    assert "kernels, each alone" in done.out
    assert "ranking_tiny at batch 2, eager PyTorch" in done.out
    [folder] = tmp_path.iterdir()
    found = validated(json.loads((folder / "result.json").read_text()))
    traced = found["traced"]
    assert traced["kernels"] == sum(case["count"] for case in found["cases"])
    assert traced["kernels_ms"] == pytest.approx(sum(case["count"] * case["ms"]["median"] for case in found["cases"]))
    assert traced["mapped_ms"] + traced["unmapped_ms"] + traced["between_ms"] == pytest.approx(traced["latency_ms"])


@pytest.mark.parametrize(
    ("error", "seen"),
    [(ValueError("odd"), ServerError), (OSError("gone"), ServerError), (OptionError("no such file"), OptionError)],
)
def test_what_a_model_raises_is_an_error_of_its_tracing(
    monkeypatch: pytest.MonkeyPatch, error: Exception, seen: type[ServemarkError]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(own_process.OwnProcess, "run", fail)
    with pytest.raises(seen, match=str(error)):
        trace_apart("ranking_tiny", 1, Device("cpu", 2, 32 << 20))


def test_a_family_that_the_workload_lacks(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_here(monkeypatch)
    traced = document("ranking", 1, CALLS, 1e-3, None)
    monkeypatch.setattr(workload, "trace", lambda *_: Trace(kernels(CALLS, "x"), traced))
    done = servemark("kernels", "lrn", "--workload", "ranking", "--out", str(tmp_path / "results"))
    assert (done.code, "ranking has no lrn; it has activation, memory" in done.err) == (BAD_INPUT, True), done.err
