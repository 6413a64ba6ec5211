"""perf's counters: figures where it counts, else its reason."""

from pathlib import Path

import pytest

from servemark.profiling import measure
from servemark.results.schema.header import reason_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.02)
    monkeypatch.setattr(measure, "ATTACH_S", 0.05)


def perf(folder: Path, *lines: str, waits: bool = True) -> str:
    """A perf that says these lines when it is interrupted."""
    said = "; ".join(f"echo '{line}' >&2" for line in lines)
    script = f'trap "{said}; exit 0" INT; while :; do sleep 0.01; done' if waits else f"{said}; exit 255"
    file = folder / "perf"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def test_instructions_for_each_cycle(tmp_path: Path) -> None:
    said = ["3000,,instructions:u,1,100.00,,", "2000,,cycles:u,1,100.00,,"]
    said += [f"{count},,topdown-{name},1,100.00,," for name, count in (("retiring", 1), ("bad-spec", 1))]
    said += [f"{count},,topdown-{name},1,100.00,," for name, count in (("fe-bound", 2), ("be-bound", 4))]
    called: list[int] = []
    found = measure.read_counters(lambda: called.append(1), "cpu", perf(tmp_path, *said))
    assert found["ipc"] == 1.5
    assert found["top_down"] == {"retiring": 0.125, "bad-spec": 0.125, "fe-bound": 0.25, "be-bound": 0.5}
    assert called


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("<not supported>,,instructions:u,0,100.00,,", "not supported"),
        ("event syntax error", "event syntax error"),
    ],
)
def test_what_it_does_not_count_has_its_reason(line: str, reason: str, tmp_path: Path) -> None:
    found = measure.read_counters(lambda: None, "cpu", perf(tmp_path, line, waits=False))
    assert found["ipc"] is None
    assert reason in str(reason_of(found, "ipc"))


def test_the_reason_is_one_line_without_usage() -> None:
    usage = "\n\n Usage: perf stat [<options>] [<command>]\n\n    -a, --all-cpus  collection from all CPUs\n"
    unknown = "event syntax error: 'topdown-retiring'\n          \\___ unknown term\nRun 'perf list' for more"
    assert measure._reason(unknown + usage) == "event syntax error: 'topdown-retiring'"
    assert measure._reason(usage) == "it did not say why"
    forbidden = "Error:\nAccess is limited.\nConsider adjusting /proc/sys/kernel/perf_event_paranoid"
    assert "kernel.perf_event_paranoid" in measure._reason(forbidden + usage)


def test_without_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "linux-perf" in str(reason_of(measure.read_counters(lambda: None, "cpu"), "ipc"))
