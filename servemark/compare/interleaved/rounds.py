"""Interleaved rounds: A B C, C B A, ..., each turn on one server for all or on one of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from servemark.compare.interleaved.document import Turn
from servemark.compare.interleaved.hosting import Hosted, Participant, ServerFactory
from servemark.compare.interleaved.warm_up import answer
from servemark.output import note
from servemark.quantities import figure
from servemark.results.directory import HISTOGRAM_FILE
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
            for participant in round_order(measure.sides(), number):
                with self.server(participant) as hosted:
                    if self.warm_each_turn:
                        answer(participant, hosted, self.folder)
                    found = measure.turn(participant, hosted, number)
                note(f"{name} {number}/{count}  {participant.label}: {found}")
            self.keep()
            if enough():
                return


@dataclass
class LoadTurns:
    """Each turn is a real run under the comparison's load; `turns` grows."""

    participants: Sequence[Participant]
    folder: Path
    turns: list[Turn] = field(default_factory=list)

    def sides(self) -> Sequence[Participant]:
        """Return all participants."""
        return self.participants

    def turn(self, participant: Participant, hosted: Hosted, number: int) -> str:
        """Make one run, with the round's seed. Raises NoResultError."""
        directory = self.folder / f"{len(self.turns) + 1:02}-{participant.contender.slug}"
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


def _words(turn: Turn) -> str:
    found = turn.to_dict()
    p50 = "-" if found["p50_ms"] is None else f"{figure(found['p50_ms'])} ms"
    verdict = verdict_words(found["failed"], found["objective"])
    if found["unsteady"]:
        verdict += ", scattered"
    if found["disturbed"]:
        verdict += ", beside other work"
    return f"p50 {p50}, {figure(found['inferences_per_s'])} inferences/s, {verdict}"
