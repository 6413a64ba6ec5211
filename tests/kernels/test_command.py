"""A run: saved after each case, resumed where it stopped, shown again, and refused with a remedy."""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import running
from kernels.ceilings import ceiling, kept, parts
from kernels.libraries import version
from kernels.measurement import measure as timed
from kernels.measurement import sensors
from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.measurement.measure import Samples
from kernels.suites import cases_of
from kernels.suites.deepbench import published
from servemark.frameworks import DISTRIBUTIONS
from servemark.machine import own_process
from servemark.machine.cpu_time import CannotTell, CpuUse
from tests.support.command_line import BAD_INPUT, Done, Servemark
from tests.support.documents import validated
from tests.support.in_process import call_here

QUIET = CpuUse(watched=2, allowed=2, groups={}, other=0.02, stolen=0.02, largest=None)
FAMILIES = ("softmax", "layer_norm", "embedding")
INVALID = 2
[PUBLISHED, *_] = next(iter(published().values()))
Run = Callable[..., tuple[Done, Any]]


@pytest.fixture(autouse=True)
def _in_this_process_on_a_steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block takes 1 ms, ceilings are small, and no process is started."""
    call_here(monkeypatch)
    monkeypatch.setattr(running, "busy_share", lambda: 0.25)
    others_take(monkeypatch, [QUIET])
    monkeypatch.setattr(timed, "time_on_cpu", lambda *_: Samples((1e-3,) * 30, calls=1))
    monkeypatch.setattr(kept, "watching", lambda: None)
    monkeypatch.setattr(kept, "taken", lambda _: 0.0)
    monkeypatch.setattr(parts, "PRODUCT", {"cpu": 64})
    monkeypatch.setattr(ceiling, "MIN_LARGEST_BYTES", 1 << 18)
    monkeypatch.setattr(ceiling, "CACHES", 0)


def others_take(monkeypatch: pytest.MonkeyPatch, uses: Iterable[CpuUse | CannotTell]) -> None:
    """Set what others take of the cores during one case after the other, again and again."""
    coming = itertools.cycle(uses)

    class Fake:
        def __init__(self, groups: Mapping[str, Iterable[int]]) -> None:
            assert groups == {"kernels": [os.getpid()]}

        def use(self) -> CpuUse:
            if isinstance(use := next(coming), CannotTell):
                raise use
            return use

    monkeypatch.setattr(sensors, "Watch", Fake)


def document_of(folder: Path) -> Any:
    return validated(json.loads((folder / "result.json").read_text()))


def only(out: Path) -> Path:
    [folder] = [each for each in out.iterdir() if each.is_dir()]
    return folder


@pytest.fixture
def run(servemark: Servemark, tmp_path: Path) -> Run:
    """Make a run that is to be valid; its words, and its document."""

    def made(*arguments: str) -> tuple[Done, Any]:
        before = {*tmp_path.iterdir()}
        done = servemark("kernels", *arguments, "--out", str(tmp_path))
        assert done.code == 0, done.err
        [folder] = [each for each in tmp_path.iterdir() if each not in before and each.is_dir()]
        return done, document_of(folder)

    return made


def test_a_run_from_the_command_line_and_its_report(run: Run, servemark: Servemark, tmp_path: Path) -> None:
    done, document = run(*FAMILIES)
    assert "[2/3] softmax rows=512 width=1000 fp32: 1 ms, 2.56 GFLOP/s" in done.err
    assert "layer_norm rows=512 width=1024" in done.out
    assert "fp32: at most" in done.out
    assert "3 cases: 3 measured, 0 skipped, 0 failed; other work used 25% of the cores" in done.out
    assert (document["partial"], document["planned"], len(document["cases"])) == (False, 3, 3)
    assert {case["status"] for case in document["cases"]} == {"measured"}
    [found] = document["ceilings"]
    assert found["tflops"] == pytest.approx(2 * 4 * 8 * 8 * 9 * 28 * 28 / 1e-3 / 1e12)
    assert found["tflops_of"].startswith("convolution n=4 c=8")
    assert found["call_us"] == pytest.approx(1000)
    assert [each["mib"] for each in found["bandwidths"]] == [0.125, 0.25]
    shown = servemark("show", str(only(tmp_path)))
    assert (shown.code, shown.out) == (0, done.out)


def test_libraries_stand_side_by_side(run: Run) -> None:
    done, _ = run("softmax", "--library", "torch,onnxruntime")
    assert f"torch {version('torch')}, onnxruntime {version('onnxruntime')}" in done.out
    assert "2 cases: 2 measured" in done.out


def test_each_case_says_what_others_took_meanwhile(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "busy_share", lambda: 0.0)
    others_take(monkeypatch, [replace(QUIET, other=0.78), CannotTell("/proc cannot be read"), QUIET])
    done, document = run(*FAMILIES, "--report")
    words = (
        "1 of 3 cases were timed while other work used more than 5% of the cores, layer_norm rows=512 width=1024 "
        "fp32 beside most (40%): their times are upper bounds."
    )
    assert words in " ".join(done.out.split())
    assert "0 failed; other work used 21% of the cores: times are upper bounds" in done.out
    assert words in (only(tmp_path) / "report.html").read_text()
    found = [(case["family"], case["other_cpu_share"]) for case in document["cases"]]
    assert found == [("layer_norm", pytest.approx(0.4)), ("softmax", None), ("embedding", pytest.approx(0.02))]
    assert document["cases"][1]["other_cpu_share_reason"] == "/proc cannot be read"


def test_a_second_precision_takes_the_bandwidths_of_the_first(run: Run) -> None:
    asked = [word for name in ("fp32", "int8", "fp32") for word in ("--precision", name)]
    _, document = run("gemm", *asked)
    first, second = document["ceilings"]
    named = [(case["label"], case["precision"]) for case in document["cases"]]
    assert len(named) == len({*named})
    assert (second["precision"], second["bandwidths"]) == ("int8", first["bandwidths"])


def test_json_prints_the_document_alone(run: Run) -> None:
    done, document = run("softmax", "--json")
    assert (done.err, json.loads(done.out)) == ("", document)


def test_a_run_that_was_ended_goes_on_where_it_stopped(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def ended(case: Case, *arguments: Any) -> Any:
        if len(measured) == 1:
            raise KeyboardInterrupt
        measured.append(case.family)
        return timed.measure(case, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(running, "measure", ended)
        assert servemark("kernels", *FAMILIES, "--out", str(tmp_path)).code == 130
    folder = only(tmp_path)
    before = document_of(folder)
    assert (before["partial"], len(before["cases"])) == (True, 1)
    assert "3 cases: 1 measured, 0 skipped, 0 failed, 2 still to come" in servemark("show", str(folder)).out
    done = servemark("kernels", "--resume", str(folder))
    assert done.code == 0, done.err
    after = document_of(folder)
    assert after["cases"][0] == before["cases"][0]
    assert (after["partial"], len(after["cases"]), after["ceilings"]) == (False, 3, before["ceilings"])
    again = servemark("kernels", "--resume", str(folder))
    assert (again.code, "[3/3]" in again.err, document_of(folder)["cases"]) == (0, False, after["cases"])


def test_ctrl_c_amid_the_ceilings_keeps_those_that_were_measured(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ceiling, "call_us", interrupted)
        done = servemark("kernels", "softmax", "--out", str(tmp_path))
    assert done.code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["ceilings.json"]
    monkeypatch.setattr(ceiling, "product_tflops", interrupted)
    monkeypatch.setattr(ceiling, "bandwidth_gbps", interrupted)
    done = servemark("kernels", "softmax", "--out", str(tmp_path))
    assert done.code == 0, done.err
    assert document_of(only(tmp_path))["ceilings"][0]["reused"] is True


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_next_run_takes_the_ceilings_that_are_kept_unless_told_otherwise(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_once(*options: str) -> tuple[Any, str]:
        done, document = run("softmax", *options)
        return document["ceilings"][0], done.err + done.out

    first, said = run_once()
    assert "kept since" not in said
    second, said = run_once()
    assert second == first | {"reused": True}
    assert f"kept since {first['measured']}; --new-ceilings measures them again" in said
    assert f"; kept since {first['measured']}" in " ".join(said.split())
    third, said = run_once("--new-ceilings")
    assert (third["reused"], "kept since" in said) == (False, False)
    monkeypatch.setattr(running, "version", lambda _: "99")
    monkeypatch.setattr(kept, "version", lambda _: "99")
    assert run_once()[0]["reused"] is False  # of another version of PyTorch


def test_a_ceiling_that_cannot_be_measured_ends_no_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Device, "available_bytes", lambda _: 1 << 18)
    done, document = run("embedding", "activation", "--report")
    words = "all working sets: 25% of the free memory are 64 KiB"
    assert f"ceilings of fp32: left out {words}" in done.err
    assert f"Left out of the ceilings: {words}." in done.out
    assert words in (only(tmp_path) / "report.html").read_text()
    assert (document["ceilings"], document["held_mib"]) == ([], None)
    assert {case["status"] for case in document["cases"]} == {"skipped"}  # there is no room for them either


def test_what_the_cores_hold_is_told_beside_what_the_system_reports(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Device] = []

    def noted(case: Case, method: Method, *arguments: Any) -> Any:
        taken.append(method.device)
        return timed.measure(case, method, *arguments)

    monkeypatch.setattr(Device, "named", lambda _: Device("cpu", 2, 480 << 20))
    monkeypatch.setattr(running, "measure", noted)
    done, document = run("softmax")
    assert "The system reports a cache of 480 MiB; these cores were seen to hold 0.125 MiB." in done.out
    assert document["cache_mib"] == 480
    assert taken[0].cache_bytes == document["held_mib"] * 2**20  # the cold copies' and the probes'


def test_another_machine_s_run_is_not_gone_on_with(servemark: Servemark, tmp_path: Path) -> None:
    method = Method(Device.named("cpu"))
    document = running.begin("quick", cases_of("quick", ["softmax"]), method)
    document["environment"]["cpu"] = "another"
    (tmp_path / "journal.jsonl").write_text(f"{json.dumps(document)}\n")
    done = servemark("kernels", "--resume", str(tmp_path))
    assert (done.code, "start a new one" in done.err) == (BAD_INPUT, True)
    assert "the CPU was another and is " in done.err


def test_published_figures_stand_beside_after_a_run_was_ended_too(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = cases_of("quick", ["softmax"])
    monkeypatch.setattr("kernels.command.published", lambda: {cases[0].kernel: [PUBLISHED]})
    document = running.begin("quick", cases, Method(Device.named("cpu")), published=True)
    (tmp_path / "journal.jsonl").write_text(f"{json.dumps(document)}\n")
    done = servemark("kernels", "--resume", str(tmp_path))
    assert done.code == 0, done.err
    assert document_of(tmp_path)["cases"][0]["published"] == [PUBLISHED]


def test_what_takes_its_process_down_is_a_failed_case(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object, call: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:
        if call is timed.measure and arguments[0].family == "softmax":
            raise own_process.Ended(f"not done within {timeout_s:g} s")
        return call(*arguments)

    monkeypatch.setattr(own_process.OwnProcess, "run", killed)
    done = servemark("kernels", "softmax", "layer_norm", "--case-limit", "30", "--out", str(tmp_path))
    assert done.code == INVALID
    assert "FAILED softmax rows=512 width=1000 fp32: not done within 150 s" in done.out
    assert sorted(case["status"] for case in document_of(only(tmp_path))["cases"]) == ["failed", "measured"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gemv"], "one of: activation"),
        (["--suite", "slow"], "one of: "),
        (["--precision", "fp64"], "one of: fp32"),
        (["--precision", "tf32"], "no CPU computes in tf32"),
        (["softmax", "--precision", "int8"], "can run none of the 1 cases: softmax has no int8"),
        (["--device", "cuda:99"], "use --device cpu"),
        (["--cache", "warm"], "one of: hot, cold"),
        (["--case-limit", "0"], "--case-limit"),
        (["--resume", "nowhere"], "name a result directory"),
        (["--library", "mxnet"], "one of: torch, "),
        (["--library", "torch,openvino"], "openvino is not"),
        (["--workload", "nothing"], "unknown workload"),
        (["--workload", "ranking", "--suite", "quick"], "--workload with --suite quick"),
        (["--workload", "ranking", "--precision", "int8"], "--workload with --precision int8"),
        (["--workload", "ranking", "-b", "0"], "at least 1"),
    ],
)
def test_bad_input_is_an_error_with_its_remedy(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.setitem(DISTRIBUTIONS, "openvino", ("not-there",))
    done = servemark("kernels", *arguments, "--out", str(tmp_path / "results"))
    assert (done.code, words in done.err, "fix: " in done.err) == (BAD_INPUT, True, True), done.err
    assert not (tmp_path / "results").exists()


def test_the_list_shows_suites_and_families(servemark: Servemark) -> None:
    done = servemark("kernels", "--list")
    assert done.code == 0
    assert "quick: 30 cases of " in done.out
    assert "softmax: torch.softmax; fp32, tf32, bf16, fp16; FLOPs: 5 an element" in done.out
