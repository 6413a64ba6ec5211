"""The demo's pieces: the commands that it shows, the results that it reads, and what it says at its end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servemark.paths import shown
from servemark.results.directory import RESULT_FILE
from tests.support.measured import answered, evenly, load_result
from tools import demo

JOB = demo.Job("ranking", "dataset", concurrency=8, slo="p99:20", closed_s=5, open_s=8, open_share=0.4)
OPEN = ("--request-rate", "40", "--duration", "10", "--warmup", "1")


def result(*flags: str, error: str | None = None) -> Any:
    """A run of which every other request fails, where there is an error."""
    bad = [answered(number / 20, 0.02, error) for number in range(220)] if error else []
    return load_result((*OPEN, *flags), [*evenly(20 if error else 40, 11, 0.02), *bad])


def save(folder: Path, document: Any, seconds: int) -> Path:
    """A result directory of that age."""
    folder.mkdir(parents=True)
    (folder / RESULT_FILE).write_text(json.dumps(document))
    os.utime(folder, (seconds, seconds))
    return folder


class Commands:
    """Stands for the processes: each leaves a result and ends with a code."""

    def __init__(self, *codes: int) -> None:
        self.codes, self.given = list(codes), list[list[str]]()

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.given.append(command)
        code = self.codes.pop(0)
        if "--out" in command:
            out = Path(command[command.index("--out") + 1])
            save(out / str(len(self.given)), result(), 1_000_000 + len(self.given))
        return subprocess.CompletedProcess(command, code)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    made = Commands(2, 4)
    monkeypatch.setattr(demo, "subprocess", made)
    return made


def test_what_is_shown_can_be_typed_again(
    commands: Commands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = demo.load(JOB, "http://127.0.0.1:43589", tmp_path)
    shown = [line for line in capsys.readouterr().out.splitlines() if line]
    rate = result()["figures"]["throughput.requests"]["value"] * JOB.open_share
    assert shown == [
        "$ servemark run ranking --input-data dataset --concurrency 8 --duration 5",
        f"$ servemark run ranking --input-data dataset --request-rate {rate:.0f} --slo p99:20 --duration 8",
    ]
    assert [folder.name for folder in found] == ["1", "2"]
    for line, given in zip(shown, commands.given, strict=True):
        here = ["--url", "http://127.0.0.1:43589", "--out", str(tmp_path), "--warmup", "1.5"]
        assert given == [sys.executable, "-m", *line.removeprefix("$ ").split(), *here]


def test_a_step_that_cannot_be_done_ends_the_demo(commands: Commands, tmp_path: Path) -> None:
    commands.codes = [3]
    with pytest.raises(SystemExit) as ended:
        demo.load(JOB, "http://127.0.0.1:1", tmp_path)
    assert ended.value.code == 3
    assert len(commands.given) == 1


def test_the_newest_result_is_the_last_made_not_the_last_by_name(tmp_path: Path) -> None:
    save(tmp_path / "b", result(), 2_000_000)
    assert demo.newest(tmp_path) == tmp_path / "b"
    last = save(tmp_path / "a", result(), 3_000_000)
    assert demo.newest(tmp_path) == last


def test_the_end_says_what_was_seen_and_what_is_next(tmp_path: Path) -> None:
    good = save(tmp_path / "good", result("--slo", "p90:50"), 1)
    lines = demo.closing([good]).splitlines()
    assert lines[0] == "What you have seen:"
    assert lines[1].startswith(
        "  ranking_tiny, 40/s poisson: asked 40/s, scheduled 40/s, all answered, goodput 40/s: p90 "
    )
    assert lines[1].endswith("objective 50 ms met, VALID")
    assert lines[2:4] == ["1 of 1 verdicts are VALID. Only figures of VALID runs may be quoted.", "Next:"]
    assert any(line.split()[:3] == ["servemark", "show", shown(good)] for line in lines)


def test_an_invalid_run_is_explained_at_the_end(tmp_path: Path) -> None:
    slow = save(tmp_path / "slow", result(error="http_500"), 1)
    good = save(tmp_path / "good", result(), 2)
    text = demo.closing([slow, good])
    assert "1 of 2 verdicts are VALID." in text
    assert "\nINVALID (" in text
    assert "error_rate" in text
    assert "): a measurement was disturbed or too short" in text
