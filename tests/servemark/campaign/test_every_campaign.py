"""Each campaign is cut short, is partial by then, goes on, and comes to what it would have come to without that."""

import contextlib
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import kernels.running as kernels
from exporters.pipeline import export as exporting
from kernels.measurement.case import Method, blank
from kernels.measurement.device import Device
from kernels.suites import cases_of
from loadgen.peers.programs import Peer
from servemark.calibration import run as calibration
from servemark.calibration.measure import METERS, row
from servemark.characterise import run as characterise
from servemark.characterise.run import Timed
from servemark.documents.commands.measure import Suite
from servemark.documents.commands.understand import Calibrate, Profile
from servemark.profiling import run as profiling
from servemark.profiling.measure import Order, measure
from servemark.results import directory
from servemark.results.directory import JOURNAL
from servemark.runs import suite
from servemark.runs.suite import Case, Plan
from servemark.workload import get
from tests.support.calibrated import NAMED
from tests.support.characterised import options
from tests.support.documents import validated
from tests.support.profiled import measured, memory
from tests.support.results import histogram_of, latencies, result_of

TINY = ("ncf_tiny", "ranking_tiny", "spatial_transformer_tiny")
DIFFERS = {"created", "spent_s", "other_cpu_share", "busy_share", "seconds", "environment"}
"""Keys whose values no two campaigns share."""


@dataclass
class Counter:
    """Turns that were made; one of them is interrupted."""

    stop_at: int = -1
    made: int = 0

    def counted(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def turn(*arguments: Any, **more: Any) -> Any:
            if self.made == self.stop_at:
                raise KeyboardInterrupt
            self.made += 1
            return make(*arguments, **more)

        return turn


@dataclass
class Campaigned:
    """A campaign whose turns measure nothing, with the place of its document."""

    turns: int
    run: Callable[[Path, Path | None], object]
    file: str = "result.json"
    said: tuple[str, ...] = ()
    """Words of the second turn, and of the last one."""
    patches: dict[tuple[Any, str], Any] = field(default_factory=dict)


def _suite(count: Counter) -> Campaigned:
    exported = SimpleNamespace(manifest={"seconds": 1.0, "peak_rss_mib": 100}, up_to_date=True)
    loaded = count.counted(lambda *_, **__: result_of(histogram_of(latencies(10))))
    cases = [Case(get(name), "fp32", 1) for name in TINY]
    asked = functools.partial(Suite, name="all", model_repository=Path("nowhere"), concurrency=1)
    return Campaigned(
        3,
        lambda out, resume: suite.run_suite(Plan(asked(out=out, resume=str(resume or "")), cases)),
        "suite.json",
        ("[2/3] ranking_tiny: VALID", "[3/3] spatial_transformer_tiny: VALID"),
        {
            (exporting, "export_isolated"): lambda *_: exported,
            (suite, "load_apart"): loaded,
            (suite, "measured_flops_per_s"): lambda: 1e10,
            (psutil, "cpu_percent"): lambda **_: 0.0,
        },
    )


def _calibration(count: Counter) -> Campaigned:
    meters: list[Peer] = [METERS["servemark"], METERS["process-clock"]]
    made = count.counted(lambda case, meter, number, _: {**row(case, meter.name, number), "reason": "it is made up"})
    return Campaigned(
        4,
        lambda out, resume: calibration.calibrate(
            Calibrate(out=out, resume=str(resume or "")), [NAMED["floor"], NAMED["stall"]], meters
        ),
        said=("[2/4] round 1, floor: process-clock: it is", "[4/4] round 1, stall: process-clock: it is"),
        patches={
            (calibration, "measure"): made,
            (calibration, "serving"): lambda _: contextlib.nullcontext(),
            (calibration, "unseen_ms"): lambda: (0.0, 0.0),
            (calibration, "_others"): lambda: lambda: None,
        },
    )


def _profile(count: Counter) -> Campaigned:
    def apart(call: Any, order: Order, *, timeout_s: float) -> Any:  # noqa: ARG001 - as it is called
        return measured() if call is measure else memory(order.batch_size)

    asked = functools.partial(Profile, workload="ranking_tiny", batches="2", no_ceilings=True)
    return Campaigned(
        4,
        lambda out, resume: profiling.profile(
            asked(model_repository=Path("nowhere"), out=out, resume=str(resume or "")), ["onnxruntime", "openvino"]
        ),
        patches={
            (profiling, "apart"): count.counted(apart),
            (profiling, "export_where_needed"): lambda *_: None,
            (profiling, "taken"): lambda _: 0.0,
        },
    )


def _characterisation(count: Counter) -> Campaigned:
    times: Any = [{"batch_size": 1, "ms": 2.0, "rounds": 3}]
    asked = options(starts=1, engines="onnxruntime,openvino", batches="none", size=1, only=())

    def run(out: Path, resume: Path | None) -> object:
        folder = resume or directory.new_directory(out, "characterise")
        found = characterise.Characterised(
            characterise.begin("own", asked), folder, Path("nowhere"), resume=bool(resume)
        )
        found.run(ceilings=False)
        return found

    return Campaigned(
        9,
        run,
        said=("[2/9] ranking_tiny, openvino: 2 ms", "[9/9] spatial_transformer_tiny, server start 1: 100"),
        patches={
            (suite, "members"): lambda _: [get(name) for name in TINY],
            (characterise, "apart"): count.counted(lambda *_, **__: Timed(measured(), times)),
            (characterise, "load_apart"): count.counted(lambda *_, **__: result_of(histogram_of(latencies(10)))),
            (characterise, "export_where_needed"): lambda *_: None,
            (characterise, "taken"): lambda _: 0.0,
        },
    )


def _kernels(count: Counter) -> Campaigned:
    method = Method(Device.named("cpu"))
    cases = cases_of("quick", ["softmax", "layer_norm", "lrn"])

    def run(out: Path, resume: Path | None) -> object:
        folder = resume or directory.new_directory(out, "kernels")
        return kernels.run(folder, kernels.begin("quick", cases, method), cases, method, resume=bool(resume))

    made = count.counted(lambda _, case, method, __: blank(case, method.device, "skipped", "it is made up"))
    return Campaigned(
        len(cases),
        run,
        said=(f"[2/3] {cases[1]}: SKIPPED it is made up", f"[3/3] {cases[2]}: SKIPPED"),
        patches={(kernels, "_case"): made, (kernels, "_measure_ceilings"): lambda *_, **__: None},
    )


EVERY = {
    "suite": _suite,
    "calibration": _calibration,
    "profile": _profile,
    "characterisation": _characterisation,
    "kernels": _kernels,
}


def plain(document: Any) -> Any:
    """A document without what differs between any two."""
    if isinstance(document, dict):
        return {key: plain(each) for key, each in document.items() if key not in DIFFERS}
    return [plain(each) for each in document] if isinstance(document, list) else document


@pytest.fixture
def campaign(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter, Campaigned]:
    count = Counter()
    made = EVERY[request.param](count)
    for (place, name), stub in made.patches.items():
        monkeypatch.setattr(place, name, stub)
    return count, made


@pytest.mark.parametrize("campaign", EVERY, indirect=True)
def test_cut_short_and_gone_on_with_is_the_same_as_whole(
    campaign: tuple[Counter, Campaigned], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count, made = campaign

    def document(folder: Path) -> Any:
        return validated(directory.read(folder / made.file))

    made.run(tmp_path / "whole", None)
    [folder] = (tmp_path / "whole").glob("2*")
    whole = document(folder)
    assert (count.made, whole["partial"], whole["partial_reason"]) == (made.turns, False, None)
    err = capsys.readouterr().err
    assert [words for words in made.said if words not in err] == []
    for cut_at in {1, made.turns - 1}:
        count.made, count.stop_at = 0, cut_at
        out = tmp_path / f"cut-{cut_at}"
        with pytest.raises(KeyboardInterrupt):
            made.run(out, None)
        [folder] = out.glob("2*")
        cut = document(folder)
        assert (cut["partial"], cut["partial_reason"]) == (True, "interrupted")
        assert len((folder / JOURNAL).read_text().splitlines()) == 1 + cut_at
        assert f"it goes on with --resume {folder}" in capsys.readouterr().err
        count.made, count.stop_at = 0, -1
        made.run(out, folder)
        assert count.made == made.turns - cut_at, "a turn was made twice"
        assert plain(document(folder)) == plain(whole)
        assert f"{cut_at} turns are in the journal already" in capsys.readouterr().err


def test_the_table_has_every_command_that_goes_on() -> None:
    """Those that are not in it have tests beside their own: their turns follow from what was found."""
    from servemark.documents.commands import compare, measure, understand

    commands = itertools.chain.from_iterable(vars(module).items() for module in (compare, measure, understand))
    resumable = {name for name, kind in commands if "resume" in getattr(kind, "__struct_fields__", ())}
    adaptive = {"Compare", "Tune", "Run"}
    assert len(resumable - adaptive) == len(EVERY), resumable
