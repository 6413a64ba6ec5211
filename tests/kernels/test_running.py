"""Estimated times, and `--resume` of damaged folders and of strangers': an error with words, and nothing is run."""

import contextlib
import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.running import CALLS, FIXED_S, NOTHING_S, START_S, _case, asked, begin, case_cost_s
from kernels.suites import cases_of
from kernels.tracing.workload import document as traced
from servemark.errors import ServemarkError
from servemark.machine.own_process import OwnProcess
from servemark.results.directory import JOURNAL
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.saved_documents import ceiling, kernels

Change = Callable[[dict[str, Any]], object]
TRACED = traced("ranking", 1, [], 1e-3, None)
METHOD = Method(Device("cpu", 2, 32 << 20))
WHOLE_S = 180.0


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        pytest.fail("a process was started for a hostile document")

    monkeypatch.setattr(OwnProcess, "run", run)


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    """A run of two cases, of which none has been measured."""
    document = begin("quick", cases_of("quick", ["softmax", "lrn"]), Method(Device.named("cpu")))
    found: dict[str, Any] = json.loads(json.dumps({**document, "ceilings": [ceiling()]}))
    return found


def saved(folder: Path, document: dict[str, Any]) -> Path:
    """Write the journal of a run that has measured the ceilings."""
    ceilings: dict[str, object] = {"found": document.get("ceilings"), "left_out": []}
    turn = {"turn": "ceilings of fp32", "seconds": 1.0, "outcome": ceilings}
    lines = ({**document, "ceilings": []}, turn) if "ceilings" in document else (document, turn)
    (folder / JOURNAL).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_an_honest_run_is_read(tmp_path: Path, honest: dict[str, Any]) -> None:
    assert asked(saved(tmp_path, honest)) == {**honest, "ceilings": []}


def test_a_cache_that_the_system_does_not_report_is_unknown() -> None:
    device = Device("cpu", 2, 32 << 20, cache_reported=False)
    assert begin("quick", cases_of("quick", ["softmax"]), Method(device))["cache_mib"] is None


DAMAGES: dict[str, Change] = {
    "no kind": lambda d: d.pop("kind"),
    "another kind": lambda d: d.update(kind="load"),
    "no cases": lambda d: d.pop("cases"),
    "cases that are none": lambda d: d.update(cases=[5]),
    "cases as an object": lambda d: d.update(cases={"0": {}}),
    "an empty case": lambda d: d.update(cases=[{}]),
    "a case of another run": lambda d: d.update(cases=kernels({})["cases"][:1]),
    "more cases than planned": lambda d: d.update(cases=kernels({})["cases"] * 3),
    "no environment": lambda d: d.pop("environment"),
    "an environment of text": lambda d: d.update(environment="x"),
    "another CPU": lambda d: d["environment"].update(cpu="another"),
    "a whole run": lambda d: d.update(partial=False),
    "partial as text": lambda d: d.update(partial="yes"),
    "no precisions": lambda d: d.update(precisions=[]),
    "an unknown precision": lambda d: d.update(precisions=["fp64"]),
    "a precision twice": lambda d: d.update(precisions=["fp32", "fp32"]),
    "a precision as a number": lambda d: d.update(precisions=[4]),
    "no libraries": lambda d: d.update(libraries=[]),
    "a module as a library": lambda d: d.update(libraries=["..measurement.run"]),
    "another library": lambda d: d.update(library="torch 99"),
    "an unknown suite": lambda d: d.update(suite="../../etc"),
    "a suite of another size": lambda d: d.update(suite="ai-matrix"),
    "no families": lambda d: d.update(families=[]),
    "an unknown family": lambda d: d.update(families=["os.system"]),
    "a family of nothing": lambda d: d.update(families=[None]),
    "a device that is not there": lambda d: d.update(device="cuda:99999999999999999999"),
    "a device of another kind": lambda d: d.update(device="tpu"),
    "a cache that is neither": lambda d: d.update(cache="warm"),
    "other threads": lambda d: d.update(threads=10**6),
    "a limit that is no number": lambda d: d.update(case_limit_s=float("nan")),
    "no limit": lambda d: d.update(case_limit_s=float("inf")),
    "a negative limit": lambda d: d.update(case_limit_s=-1),
    "a limit of ages": lambda d: d.update(case_limit_s=1e200),
    "a limit of many digits": lambda d: d.update(case_limit_s=10**400),
    "a limit as text": lambda d: d.update(case_limit_s="60"),
    "a limit as true": lambda d: d.update(case_limit_s=True),
    "negative time": lambda d: d.update(spent_s=-1e9),
    "time as text": lambda d: d.update(spent_s="x"),
    "no ceilings' rate": lambda d: d["ceilings"][0].update(tflops=0),
    "a negative rate": lambda d: d["ceilings"][0].update(call_us=-1),
    "an infinite rate": lambda d: d["ceilings"][0].update(tflops=float("inf")),
    "no bandwidths": lambda d: d["ceilings"][0].update(bandwidths=[]),
    "a bandwidth of nothing": lambda d: d["ceilings"][0]["bandwidths"][0].update(gbps=0),
    "a working set of less": lambda d: d["ceilings"][0]["bandwidths"][0].update(mib=-1),
    "bandwidths in disorder": lambda d: d["ceilings"][0]["bandwidths"].reverse(),
    "a ceiling twice": lambda d: d["ceilings"].append(d["ceilings"][0]),
    "ceilings of text": lambda d: d.update(ceilings="x"),
    "a ceiling that was reused from nothing": lambda d: d["ceilings"][0].update(reused="yes", measured=5),
    "a trace of text": lambda d: d.update(traced="ranking"),
    "a trace of a file": lambda d: d.update(traced={**TRACED, "workload": "/tmp/evil.py"}),
    "a trace of nothing": lambda d: d.update(traced={**TRACED, "batch_size": 0}),
    "a trace that needs all memory": lambda d: d.update(traced={**TRACED, "batch_size": 10**12}),
    "published figures that are a text": lambda d: d.update(published="x"),
    "words that steer a terminal": lambda d: d.update(precisions=["\x1b[2J\x1b]0;x\x07"]),
    "a version to come": lambda d: d.update(schema_version=99),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_document_is_refused_with_words(
    servemark: Servemark, tmp_path: Path, honest: dict[str, Any], change: Change
) -> None:
    document = copy.deepcopy(honest)
    change(document)
    before = saved(tmp_path, document).joinpath(JOURNAL).read_bytes()
    done = servemark("kernels", "--resume", str(tmp_path))
    assert (done.code, "Traceback" in done.err, "\x1b" in done.err) == (BAD_INPUT, False, False), done.err
    assert "servemark: " in done.err
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(JOURNAL, before)]


@pytest.mark.parametrize("key", ["suite", "device", "cache", "threads", "families", "cases", "planned", "library"])
@pytest.mark.parametrize("value", [None, 5, "x", [], {}, [[]], -1, 1e308, True, "x" * 10**6], ids=lambda v: f"{v!r:.9}")
def test_any_value_anywhere_is_refused_or_right(
    tmp_path: Path, honest: dict[str, Any], key: str, value: object
) -> None:
    folder = saved(tmp_path, {**honest, key: value})
    with contextlib.suppress(ServemarkError):
        assert asked(folder)[key] == value  # type: ignore[literal-required]


@pytest.mark.parametrize("text", ["", "null", "[]", "5", "{}", "[" * 10**5, '{"kind":' * 10**5, "\x00", "\udcff"])
def test_a_file_that_is_no_document_is_refused(servemark: Servemark, tmp_path: Path, text: str) -> None:
    (tmp_path / JOURNAL).write_text(text, errors="surrogateescape")
    done = servemark("kernels", "--resume", str(tmp_path))
    assert (done.code, "Traceback" in done.err) == (BAD_INPUT, False), done.err


def test_neither_a_fifo_nor_a_device_nor_a_huge_file_is_read(servemark: Servemark, tmp_path: Path) -> None:
    file = tmp_path / JOURNAL

    def make_huge() -> None:
        with file.open("w") as open_file:
            open_file.truncate(1 << 40)  # of holes

    makes: list[Callable[[], None]] = [
        lambda: os.mkfifo(file),
        lambda: file.symlink_to("/dev/zero"),
        lambda: file.symlink_to("/proc/self/mem"),
        make_huge,
        file.mkdir,
    ]
    for make in makes:
        make()
        done = servemark("kernels", "--resume", str(tmp_path))
        assert (done.code, "fix: name a result directory" in done.err) == (BAD_INPUT, True), done.err
        file.rmdir() if file.is_dir() else file.unlink()


def test_a_loop_of_links_and_a_file_are_no_folders(servemark: Servemark, tmp_path: Path) -> None:
    loop, file = tmp_path / "loop", tmp_path / "file"
    loop.symlink_to(loop)
    file.write_text("{}")
    for path in (loop, file, tmp_path / "missing", tmp_path / ("x" * 300)):
        done = servemark("kernels", "--resume", str(path))
        assert (done.code, "fix: name a result directory" in done.err) == (BAD_INPUT, True), done.err


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


def test_a_case_whose_library_cannot_be_used_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("ImportError: libcudnn.so.9\nmore")

    monkeypatch.setattr(OwnProcess, "run", fail)
    found = _case(OwnProcess(), Case.of("softmax", rows=1, width=1), METHOD, None)
    assert (found["status"], found.get("reason")) == ("failed", "ImportError: libcudnn.so.9")


def test_quick_takes_less_than_three_minutes_on_two_modest_cores() -> None:
    ceilings_s = 32.0
    assert START_S + ceilings_s + sum(case_cost_s(case, None, METHOD) for case in cases_of("quick")) < WHOLE_S
