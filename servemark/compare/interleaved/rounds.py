"""Interleaved rounds: A B C, C B A, ..., each turn on one server for all or on one of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from servemark.compare.interleaved.document import Turn
from servemark.compare.interleaved.hosting import Hosted, Participant, ServerFactory
from servemark.compare.interleaved.validity import unmet
from servemark.compare.interleaved.warm_up import answer
from servemark.output import note
from servemark.quantities import figure
from servemark.results.constraint_kinds import About, Kind, about
from servemark.results.directory import HISTOGRAM_FILE
from servemark.results.schema.comparison import RepeatedRound
from servemark.results.verdict import verdict_words
from servemark.runs.locust_process import drive
from servemark.search.max_rate.refinement import round_order


class Measure(Protocol):
    """Measurement of each turn."""

    def sides(self) -> Sequence[Participant]:
        """Return the participants of the next round."""

    def turn(self, participant: Participant, hosted: Hosted, number: int) -> str:
        """Measure one engine at its server in round `number`; return the finding in a few words."""


@dataclass(frozen=True)
class Rounds:
    """Interleaved rounds of a comparison; `keep` is called after each complete round."""

    folder: Path
    server: ServerFactory
    keep: Callable[[], None]
    warm_each_turn: bool

    def run(
        self, count: int, measure: Measure, name: str = "round", *, enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Measure `count` rounds, or until they are enough.

        Raises ServerError, NoResultError if a run has none, KeyboardInterrupt.
        """
        for number in range(1, count + 1):
            self.one(number, measure, f"{name} {number}/{count}")
            self.keep()
            if enough():
                return

    def one(self, number: int, measure: Measure, name: str) -> None:
        """Measure one round. Raises as `run`."""
        for participant in round_order(measure.sides(), number):
            with self.server(participant) as hosted:
                if self.warm_each_turn:
                    answer(participant, hosted, self.folder)
                found = measure.turn(participant, hosted, number)
            note(f"{name}  {participant.label}: {found}")


@dataclass
class LoadTurns:
    """Each turn is a real run under the comparison's load; `turns` grows."""

    participants: Sequence[Participant]
    folder: Path
    turns: list[Turn] = field(default_factory=list)
    repeated: list[RepeatedRound] = field(default_factory=list)
    made: int = 0
    """Runs that were begun, those that do not count among them."""

    def sides(self) -> Sequence[Participant]:
        """Return all participants."""
        return self.participants

    def turn(self, participant: Participant, hosted: Hosted, number: int) -> str:
        """Make one run, with the round's seed. Raises NoResultError."""
        self.made += 1
        directory = self.folder / f"{self.made:02}-{participant.contender.slug}"
        directory.mkdir()
        config = participant.config
        try:
            served = hosted.asked(config).changed(seed=config.seed + number - 1)
            drive(replace(served, result_dir=directory))
        finally:
            # An interrupted run is listed too, but takes no part in the figures.
            if (directory / HISTOGRAM_FILE).exists():
                turn = Turn.read(number, participant.label, directory)
                self.turns.append(replace(turn, footprint=hosted.footprint()))
        return _words(self.turns[-1])

    def repeat(self, rounds: Rounds) -> None:
        """Make rounds again, once each, in which a run is INVALID because it drifted or the load generator was late.

        All engines run again, and the former runs of such a round do not count, whatever they found. Where half of the
        rounds or more are such, the machine is to blame, and none is repeated. Raises as `Rounds.run`.
        """
        spoilt = {turn.round: turn for turn in self.turns if _spoilt(turn)}
        if 2 * len(spoilt) >= len({turn.round for turn in self.turns}):
            return
        for number, turn in spoilt.items():
            failed = unmet(turn.result)
            note(f"round {number} again, because {turn.label} was INVALID ({', '.join(failed)})")
            before = [*self.turns]
            try:
                rounds.one(number, self, f"round {number} again")
            except BaseException:
                self.turns[:] = before
                raise
            others = [each for each in before if each.round != number]
            self.turns[:] = sorted([*others, *self.turns[len(before) :]], key=lambda each: each.round)
            self.repeated.append({"round": number, "label": turn.label, "failed": failed})
            rounds.keep()


def _spoilt(turn: Turn) -> bool:
    """Tell whether a run is INVALID for no other reason than that it drifted or the load generator was late."""
    failed = unmet(turn.result)
    return bool(failed) and not set(failed) - {Kind.STEADY_STATE, *about(failed, About.GENERATOR)}


def _words(turn: Turn) -> str:
    found = turn.to_dict()
    p50 = "-" if found["p50_ms"] is None else f"{figure(found['p50_ms'])} ms"
    verdict = verdict_words(found["failed"], found["objective"])
    if found["unsteady"]:
        verdict += ", scattered"
    if found["disturbed"]:
        verdict += ", beside other work"
    return f"p50 {p50}, {figure(found['inferences_per_s'])} inferences/s, {verdict}"
