"""The turns of a campaign, one after another: their journal, the document after each of them, and the time left.

The journal has JSON lines: what was asked for, then each turn. A folder to go on with may be damaged, or somebody
else's: nothing in it is trusted.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Generic, Self, TypeVar, cast, get_type_hints, is_typeddict

import msgspec

from servemark import files
from servemark.errors import OptionError, ResultError
from servemark.output import note
from servemark.paths import shown
from servemark.quantities import duration_text
from servemark.results import directory as results
from servemark.results.directory import JOURNAL

OTHERWISE = frozenset({"created", "command", "environment", "busy_share"})
"""Keys of what a campaign was asked for that may differ when it goes on; of the environment only the CPU may not."""
ANEW = "start a new one, without --resume"
SHOWN = 4
"""Differences that an error names, so that it stays one line."""
GOES_ON, INTERRUPTED, FAILED = "it goes on", "interrupted", "it ended with an error"
"""Reasons why a document is partial."""
T = TypeVar("T")


class Line(msgspec.Struct):
    """A turn as the journal has it."""

    turn: str
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    outcome: Any


class Journal:
    """The turns of a folder by name, each of them on disk when it has been added."""

    def __init__(self, folder: Path, asked: Mapping[str, Any], *, resume: bool) -> None:
        """Begin a journal, or go on with that of the folder.

        Raises OptionError if it was `asked` for something else, ResultError if it is damaged or cannot be written.
        """
        self._path = folder / JOURNAL
        self.turns = _past(self._path, asked) if resume else {}
        if not resume:
            self._append(msgspec.to_builtins(asked))

    def add(self, name: str, seconds: float, outcome: object) -> None:
        """Add a turn. Raises ResultError on a full disk."""
        line = Line(name, round(seconds, 6), msgspec.to_builtins(outcome))
        self._append(msgspec.to_builtins(line))
        self.turns[name] = line

    def outcome(self, name: str, kind: type[T]) -> T:
        """Return the outcome of a turn as its kind. Raises ResultError if it is none."""
        outcome = self.turns[name].outcome
        try:
            found = msgspec.convert(outcome, kind)
        except ValueError as error:
            raise ResultError(f"{self._path} is damaged: {error}", fix=ANEW) from error
        return cast(T, _with_reasons(found, outcome, kind))

    def _append(self, line: Mapping[str, Any]) -> None:
        """Append a line, whole and synced; on a full disk none of it."""
        try:
            with self._path.open("ab", buffering=0) as file:
                before = file.tell()
                left = memoryview(json.dumps(line, allow_nan=False).encode() + b"\n")
                try:
                    while left:  # a disk that is nearly full takes a part
                        left = left[file.write(left) :]
                    os.fsync(file)
                except OSError:
                    file.truncate(before)
                    raise
        except OSError as error:
            raise ResultError(
                f"{self._path} cannot be written: {error.strerror}", fix="give a directory with room: --out DIR"
            ) from error


def _with_reasons(found: Any, outcome: Any, kind: Any) -> Any:
    """Give groups of figures, itself or in its fields, the keys that their types do not name: the reasons."""
    if is_typeddict(kind):
        return outcome
    if not is_dataclass(kind):
        return found
    groups = [name for name, hint in get_type_hints(kind).items() if is_typeddict(hint)]
    return replace(found, **{name: outcome[name] for name in groups})


def asked_of(folder: Path) -> dict[str, Any]:
    """Read what a campaign was asked for. Raises ResultError."""
    return _read(folder / JOURNAL)[0]


def _past(path: Path, asked: Mapping[str, Any]) -> dict[str, Line]:
    """Read the turns of a journal. Raises OptionError if it was asked for something else, ResultError."""
    first, lines = _read(path, mend=True)
    now = msgspec.json.decode(msgspec.json.encode(asked))
    before, here = ({**_cpu(each), **{key: each[key] for key in each.keys() - OTHERWISE}} for each in (first, now))
    # Of another command's campaign every key differs.
    keys = ["kind"] if before.get("kind") != here.get("kind") else sorted({*before, *here})
    changed = [each for key in keys for each in _changes(key, before.get(key), here.get(key))]
    if changed:
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        raise OptionError(
            f"{path.parent} was another campaign: {', '.join(changed[:SHOWN])}{more}",
            fix=f"use the same options, or {ANEW}",
        )
    return {line.turn: line for line in lines}


def _changes(name: str, before: Any, now: Any) -> Iterator[str]:
    """Tell the innermost values that differ."""
    parts = [dict(enumerate(each)) if isinstance(each, list) else each for each in (before, now)]
    if all(isinstance(each, dict) for each in parts):
        for key in sorted({*parts[0], *parts[1]}):
            yield from _changes(f"{name}.{key}", parts[0].get(key), parts[1].get(key))
    elif before != now:
        yield f"{name} was {before!s:.80} and is {now!s:.80}"


def _cpu(asked: Mapping[str, Any]) -> dict[str, Any]:
    environment = asked.get("environment")
    return {"the CPU": environment.get("cpu")} if isinstance(environment, dict) else {}


def _read(path: Path, *, mend: bool = False) -> tuple[dict[str, Any], list[Line]]:
    """Read what was asked for, and the turns, without a line that a loss of power cut; `mend` cuts it off.

    Raises ResultError.
    """
    try:
        data = files.content(path, files.DOCUMENT_BYTES)
        if mend and not data.endswith(b"\n"):
            os.truncate(path, data.rfind(b"\n") + 1)
    except OSError as error:
        raise ResultError(
            f"{path} cannot be read: {error.strerror}", fix=f"name a result directory of this command, or {ANEW}"
        ) from error
    try:
        first, *lines = data.split(b"\n")[:-1]
        asked = msgspec.json.decode(first, type=dict[str, Any])
        return asked, [msgspec.json.decode(line, type=Line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path} is not the journal of a campaign: {error}", fix=ANEW) from error


def interleaved(sides: Sequence[T], number: int) -> list[T]:
    """Return the order of a round, counted from 1: A B C, then C B A, so that drift of the machine hits all alike."""
    return list(sides) if number % 2 else list(reversed(sides))


class Progress:
    """The work that is left, in the seconds that it should take, and the time that it takes here."""

    def __init__(self, work_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.left_s = work_s
        self._done_s = 0.0
        self._clock, self._begun = clock, clock()

    def skip(self, work_s: float) -> None:
        """Take out work that need not be done."""
        self.left_s = max(self.left_s - work_s, 0.0)

    def done(self, work_s: float) -> str:
        """Count work as done; in words how long the rest takes at the speed so far: " (about 65 s left)"."""
        self._done_s += work_s
        self.skip(work_s)
        seconds = (self._clock() - self._begun) * self.left_s / self._done_s if self._done_s else 0.0
        return f" (about {duration_text(seconds)} left)" if seconds >= 1 else ""


@dataclass(frozen=True)
class Turn(Generic[T]):
    """A measurement with a name of its own in the campaign, and about how long it takes."""

    name: str
    make: Callable[[], T]
    cost_s: float = 0.0


class Campaign:
    """Turns that are made one after another, for use in a `with`; the end of it, however it comes, is written.

    `write` writes the document so far, and gets the reason why it is partial; None: it is whole. Where an error or a
    signal comes before any turn has ended, the folder is removed.
    """

    def __init__(
        self,
        folder: Path,
        asked: Mapping[str, Any],
        write: Callable[[str | None], object] = lambda _: None,
        *,
        resume: bool = False,
    ) -> None:
        """Begin a journal, or go on with that of the folder. Raises as `Journal`."""
        self.folder, self._write, self._resumed = folder, write, resume
        self._journal = Journal(folder, asked, resume=resume)
        self._count, self._planned, self._progress = 0, 0, Progress(0.0)
        self._fresh = False
        """True when a turn has been made: until then the document of before has more."""
        self.spent_s = 0.0
        """Time that the turns took, those before a resumption among them."""
        if resume:
            note(f"{len(self._journal.turns)} turns are in the journal already")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._journal.turns:
            results.discard(self.folder, whole=not self._resumed)  # turns that did not end leave folders
            return
        reason = None if kind is None else INTERRUPTED if issubclass(kind, KeyboardInterrupt) else FAILED
        if reason is None or self._fresh:
            self._write(reason)
        if reason:
            note(f"partial result: {shown(self.folder)}; it goes on with --resume {shown(self.folder)}")

    def expect(self, costs_s: Iterable[float]) -> float:
        """Tell how many turns are to come and about how long each takes; return the sum for an announcement."""
        costs = list(costs_s)
        self._count, self._planned, self._progress = 0, len(costs), Progress(sum(costs))
        return sum(costs)

    def lacks(self, name: str) -> bool:
        """Tell whether a turn is still to be made."""
        return name not in self._journal.turns

    def turn(
        self, name: str, make: Callable[[], T], kind: type[T], *, lasts: Callable[[T], bool] = lambda _: True
    ) -> T:
        """Return the outcome that the journal has of a turn, else make it; one that does not last is made again later.

        Raises what `make` raises, ResultError on a full disk or of an outcome that is of another kind.
        """
        if not self.lacks(name):
            self.spent_s += self._journal.turns[name].seconds
            return self._journal.outcome(name, kind)
        begun = time.monotonic()
        outcome = make()
        self._fresh = True
        seconds = time.monotonic() - begun
        self.spent_s += seconds
        if lasts(outcome):
            self._journal.add(name, seconds, outcome)
        return outcome

    def turns(
        self,
        plan: Iterable[Turn[T]],
        kind: type[T],
        describe: Callable[[T], str],
        *,
        lasts: Callable[[T], bool] = lambda _: True,
    ) -> Iterator[tuple[Turn[T], T]]:
        """Make a plan's turns; each outcome is given, then the document is written and the outcome described."""
        for turn in plan:
            known = not self.lacks(turn.name)
            outcome = self.turn(turn.name, turn.make, kind, lasts=lasts)
            yield turn, outcome
            self._count += 1
            if known:
                self._progress.skip(turn.cost_s)
                continue
            self._write(GOES_ON)
            number = f"[{self._count}/{max(self._planned, self._count)}] " if self._planned else ""
            note(f"{number}{turn.name}: {describe(outcome)}{self._progress.done(turn.cost_s)}")

    def mark(self, document: Any, partial: str | None) -> None:
        """Give a document the keys of all campaigns: how long its turns took, whether it is partial, and why."""
        document |= {"spent_s": self.spent_s, "partial": partial is not None, "partial_reason": partial}

    def below(self, name: str) -> Path:
        """Make the directory of a turn, in place of what an interrupted one has left there."""
        made = self.folder / name
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        return made
