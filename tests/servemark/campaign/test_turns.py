"""Campaigns: a journal that is gone on with, the document after each turn, and the time that is left."""

import errno
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servemark.campaign import Campaign, Progress, Turn, asked_of, interleaved
from servemark.errors import OptionError, ResultError
from servemark.results.directory import JOURNAL

ASKED = {"kind": "test", "seed": 1, "flags": {"slo": "p99:50"}}


@dataclass(frozen=True)
class Found:
    """Outcome of a turn."""

    number: int
    names: frozenset[str] = frozenset()
    ms: float | None = None


class Counted:
    """A campaign of ten turns that ends, by Ctrl-C or an error, before one of them."""

    def __init__(self, folder: Path, stop_at: int = 10, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.folder, self.stop_at, self.error = folder, stop_at, error
        self.made: list[int] = []
        self.written: list[tuple[int, str | None]] = []
        self.failing: set[int] = set()

    def make(self, number: int) -> Found:
        if len(self.made) == self.stop_at:
            raise self.error
        self.made.append(number)
        return Found(number, frozenset({"a", "b"}), None if number in self.failing else number / 3)

    def run(self, *, resume: bool = False, asked: object = None) -> list[Found]:
        found: list[Found] = []
        campaign = Campaign(
            self.folder,
            asked or ASKED,  # type: ignore[arg-type]
            lambda partial: self.written.append((len(found), partial)),
            resume=resume,
        )
        plan = [Turn(f"turn {number}", lambda number=number: self.make(number), 2.0) for number in range(10)]  # type: ignore[misc]
        with campaign:
            campaign.expect(turn.cost_s for turn in plan)
            turns = campaign.turns(plan, Found, lambda each: f"{each.number}", lasts=lambda each: each.ms is not None)
            for _, outcome in turns:
                found.append(outcome)
        return found


@pytest.mark.parametrize("stop_at", [1, 4, 9])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_is_gone_on_with_ends_like_what_was_never_stopped(
    tmp_path: Path, stop_at: int, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole").mkdir()
    whole = Counted(tmp_path / "whole").run()
    stopped = Counted(tmp_path, stop_at, error)
    with pytest.raises(error):
        stopped.run()
    reason = "interrupted" if error is KeyboardInterrupt else "it ended with an error"
    assert stopped.written == [*((n, "it goes on") for n in range(1, stop_at + 1)), (stop_at, reason)]
    said = capsys.readouterr().err
    assert f"[{stop_at}/10] turn {stop_at - 1}: {stop_at - 1}" in said
    assert f"it goes on with --resume {tmp_path}" in said
    rest = Counted(tmp_path)
    assert rest.run(resume=True) == whole
    assert rest.made == list(range(stop_at, 10))
    assert rest.written[-1] == (10, None)
    assert f"{stop_at} turns are in the journal already" in (said := capsys.readouterr().err)
    assert f"[{stop_at + 1}/10] turn {stop_at}: {stop_at}" in said


def test_a_turn_that_does_not_last_is_made_again(tmp_path: Path) -> None:
    first = Counted(tmp_path)
    first.failing = {3, 5}
    assert [each.ms is None for each in first.run()].count(True) == 2
    again = Counted(tmp_path)
    assert None not in [each.ms for each in again.run(resume=True)]
    assert again.made == [3, 5]


def test_nothing_is_left_of_what_ended_before_its_first_turn(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        Counted(folder, 0).run()
    assert not folder.exists()
    folder.mkdir()
    campaign = Campaign(folder, ASKED)
    (campaign.below("01-a") / "result.json").write_text("{}")
    campaign.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not folder.exists()


class NearlyFull(io.FileIO):
    """A file on a disk that takes at most `room` bytes more, and few at once."""

    room = 1000

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        NearlyFull.room -= (taken := min(len(data), 7, self.room))
        return super().write(bytes(data[:taken]))


def test_a_disk_that_is_nearly_full_leaves_no_half_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", lambda path, mode, **_: NearlyFull(path, mode))
    campaign = Campaign(tmp_path, ASKED)
    campaign.turn("a", lambda: 1, int)
    NearlyFull.room = 20
    before = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(ResultError, match="No space left on device"):
        campaign.turn("b", lambda: 2, int)
    assert before.count(b"\n") == 2
    assert (tmp_path / JOURNAL).read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"flags": {"slo": "p99:60"}}, "flags.slo was p99:50 and is p99:60"),
        ({"meters": [{"name": "x" * 99}, {"name": "c"}]}, "meters.1.name was b and is c"),
        ({"meters": [{"name": "x" * 99}]}, "meters.1 was {'name': 'b'} and is None"),
        ({"kind": "other", "flags": {}}, "kind was test and is other"),
        ({"flags": dict.fromkeys("abcdef", 1)}, "flags.d was None and is 1 and 3 more"),
    ],
)
def test_a_journal_of_something_else_is_refused(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    asked = {**ASKED, "meters": [{"name": "x" * 99}, {"name": "b"}]}
    Counted(tmp_path).run(asked=asked)
    with pytest.raises(OptionError, match=rf"was another campaign: [^\n]*{re.escape(words)}\n"):
        Counted(tmp_path).run(resume=True, asked={**asked, **changed, "created": "another day"})
    assert asked_of(tmp_path) == asked


def test_half_a_line_is_dropped(tmp_path: Path) -> None:
    Counted(tmp_path).run()
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"turn": "turn 1')
    assert Counted(tmp_path, 0).run(resume=True) == [Found(n, frozenset({"a", "b"}), n / 3) for n in range(10)]
    assert journal.read_bytes() == whole


Damage = Callable[[Path], object]


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_text(""),
        lambda file: file.write_text("[]\n"),
        lambda file: file.write_text('{"kind": "test"\n'),
        lambda file: file.write_text(file.read_text() + '{"turn": 5, "seconds": 1, "outcome": {}}\n'),
        lambda file: file.write_text(file.read_text() + '{"turn": "x", "seconds": -1, "outcome": {}}\n'),
        lambda file: file.write_text(file.read_text().replace('"number": 4', '"number": "four"')),
        lambda file: file.write_text(file.read_text() + "[" * 10**5 + "\n"),
        lambda file: file.write_bytes(file.read_bytes() + b"\xff\n"),
        piped,
        lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
        lambda file: file.unlink(),
    ],
)
def test_a_damaged_journal_is_an_error_and_nothing_is_made(tmp_path: Path, damage: Damage) -> None:
    Counted(tmp_path).run()
    damage(tmp_path / JOURNAL)
    again = Counted(tmp_path, 0)
    with pytest.raises(ResultError):
        again.run(resume=True)
    assert again.made == []


def test_a_turns_directory_takes_the_place_of_an_interrupted_ones(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, ASKED)
    (campaign.below("01-a") / "half").write_text("")
    assert list(campaign.below("01-a").iterdir()) == []


def test_rounds_alternate() -> None:
    assert [interleaved("abc", number) for number in (1, 2, 3)] == [[*"abc"], [*"cba"], [*"abc"]]


def test_what_is_left_follows_the_speed_so_far() -> None:
    now = 0.0
    progress = Progress(1000.0, lambda: now)
    now = 200.0  # twice as long as expected
    assert progress.done(100.0) == " (about 30.0 min left)"
    progress.skip(300.0)
    now = 400.0
    assert progress.done(100.0) == " (about 16.7 min left)"
    progress.left_s = 0.0
    assert progress.done(0.0) == ""
    assert Progress(100.0, lambda: 5.0).done(0.0) == ""  # nothing done tells nothing
