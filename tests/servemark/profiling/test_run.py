"""A profile as a whole: complete after each engine, also where one fails, the time is over or a signal comes."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servemark.documents.commands.understand import Profile as Asked
from servemark.errors import ArtifactError, OptionError
from servemark.machine.own_process import Ended
from servemark.profiling import run
from servemark.profiling.measure import Order, measure
from servemark.profiling.run import CHROME, SPEEDSCOPE, chrome, parts, speedscope
from servemark.results.directory import read_as
from servemark.results.schema.header import reason_of
from servemark.results.schema.profile import Profile
from tests.support.profiled import EVENTS, measured, memory

Profiled = Callable[..., tuple[Path, Profile]]


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiled:
    """Profile a workload that nobody exports, without ceilings."""
    monkeypatch.setattr(run, "export_where_needed", lambda *_: None)
    places: dict[str, Any] = {"model_repository": tmp_path, "out": tmp_path / "results"}

    def made(batches: str, *engines: str, budget_s: float = 60) -> tuple[Path, Profile]:
        asked = Asked(workload="ranking_tiny", batches=batches, no_ceilings=True, budget_s=budget_s, **places)
        return run.profile(asked, engines or ["onnxruntime", "openvino"])

    return made


def answering(outcomes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each engine's process answer, or raise."""

    def apart(call: Any, order: Order, *, timeout_s: float) -> Any:  # noqa: ARG001 - as it is called
        found = outcomes.get(order.engine) or (measured() if call is measure else memory(order.batch_size))
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(run, "apart", apart)


def saved(out: Path) -> Profile:
    [file] = out.glob("*/result.json")
    return read_as(file, Profile)


def test_engines_memory_and_traces_are_kept(
    profiled: Profiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering({"openvino": ArtifactError("it is damaged", fix="mend it")}, monkeypatch)
    folder, document = profiled("1,4")
    assert document == saved(tmp_path / "results")
    first, second = document["engines"]
    assert [each["batch_size"] for each in first["memory"]] == [1, 4]
    assert reason_of(second, "latency_ms") == "it is damaged"
    assert not document["partial"]
    assert (folder / SPEEDSCOPE).is_file()
    assert (folder / CHROME).is_file()


def test_what_is_not_done_in_time_is_left_out(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    answering({}, monkeypatch)
    _, document = profiled("none", budget_s=0)
    assert [each["latency_ms"] for each in document["engines"]] == [None, None]
    assert document["partial"]


@pytest.mark.parametrize("late", [False, True])
def test_memory_that_is_left_out_has_its_reason_and_is_partial_where_the_time_was_over(
    profiled: Profiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    def apart(call: Any, _: Order, *, timeout_s: float) -> Any:
        if call is measure:
            return measured()
        if late:
            monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + timeout_s))
        raise Ended("its process was killed")

    monkeypatch.setattr(run, "apart", apart)
    profiled("4", "onnxruntime")
    document = saved(tmp_path / "results")
    [engine] = document["engines"]
    assert engine["memory"] == []
    assert engine.get("memory_left_out") == [{"batch_size": 4, "reason": "its process was killed"}]
    assert document["partial"] is late


def test_nothing_begins_for_a_batch_that_cannot_be(profiled: Profiled, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="takes batches up to"):
        profiled(f"{1 << 20}")
    assert not (tmp_path / "results").exists()


def test_the_engines_of_a_cpu_are_those_with_a_package() -> None:
    assert run.installed("cpu") == ["onnxruntime", "openvino", "pytorch", "tensorflow"]


@pytest.mark.parametrize(
    ("engine", "device", "what", "fix"),
    [
        ("openvino", "cuda:0", "a CPU only, cuda:0", "--device cpu, or for cuda:0 one of onnxruntime, pytorch,"),
        ("tensorrt", "cpu", "a GPU only, cpu", "--device cuda:0, or for cpu one of onnxruntime, openvino,"),
        ("pytorch", "cuda:1", "torch is not installed", "pip install -e '.[torch]'"),
    ],
)
def test_a_device_without_a_profiler_is_not_a_package_that_is_missing(
    engine: str, device: str, what: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.refusal("onnxruntime", "cuda:0") is None
    monkeypatch.setattr(run, "distribution_of", lambda _: None)
    error = run.refusal(engine, device)
    assert error is not None
    assert what in error.what
    assert fix in (error.fix or "")


def test_nothing_that_can_be_profiled_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "distribution_of", lambda _: None)
    with pytest.raises(OptionError, match="no engine that can be profiled on cpu"):
        run.installed("cpu")


mib = st.floats(-20, 500)


@given(mib, mib, mib, st.floats(0, 600))
def test_parts_add_up(imports: float, loading: float, answering: float, artifact: float) -> None:
    found = parts(50.0, 50 + imports, 50 + imports + loading, 50 + imports + loading + answering, artifact)
    assert sum(each["mib"] for each in found) == pytest.approx(imports + loading + answering, abs=1e-6)


def test_weights_that_are_mapped_are_no_activations() -> None:
    named = {each["part"]: each["mib"] for each in parts(50.0, 80.0, 90.0, 200.0, 100.0)}
    assert named == {
        "engine's libraries": 30.0,
        "weights": 100.0,
        "loading beyond the weights": 0.0,
        "activations and workspace": 20.0,
    }


def test_speedscope_s_weights_add_up_to_the_inference() -> None:
    found = speedscope({"onnxruntime": measured().inference})
    [profile] = found["profiles"]
    assert sum(profile["weights"]) == pytest.approx(profile["endValue"]) == pytest.approx(1000.0)
    names = [each["name"] for each in found["shared"]["frames"]]
    assert [names[frame] for frame in profile["samples"][0]] == [
        "before the steps: layer1",
        "layer1",
        "layer1.0",
        "conv (Conv)",
    ]
    assert len(profile["samples"]) == len(profile["weights"])


def test_chrome_s_events_lie_where_the_operators_did() -> None:
    events = chrome({"onnxruntime": measured().inference})["traceEvents"]
    assert [each["ts"] for each in events if each.get("args", {}).get("operator")] == [e.start_us for e in EVENTS]
    assert {each["ph"] for each in events} == {"M", "X"}
