"""Interleaved rounds: A B C, C B A, ..., each turn a real run against one server for all or one for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from servemark.comparison.document import Turn
from servemark.comparison.hosting import Participant, ServerFactory
from servemark.comparison.warm_up import answer, drive_captured
from servemark.max_rate.refinement import round_order
from servemark.output import note
from servemark.results.directory import HISTOGRAM_FILE


@dataclass
class Rounds:
    """The rounds of one comparison; `turns` grows, and `keep` is called after each round that is whole."""

    participants: Sequence[Participant]
    folder: Path
    server: ServerFactory
    keep: Callable[[], None]
    warm_each_turn: bool
    turns: list[Turn] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Measure so many rounds. Raises ServerError, NoResultError where a run has none, KeyboardInterrupt."""
        by_label = {participant.label: participant for participant in self.participants}
        for number in range(1, count + 1):
            for label in round_order(list(by_label), number):
                self._turn(number, count, by_label[label])
            self.keep()

    def _turn(self, number: int, count: int, participant: Participant) -> None:
        directory = self.folder / f"{len(self.turns) + 1:02}-{participant.contender.slug}"
        with self.server(participant.model) as address:
            if self.warm_each_turn:
                answer(participant, address, self.folder)
            directory.mkdir()
            config = participant.config
            try:
                drive_captured(replace(config.at(address), seed=config.seed + number - 1, result_dir=directory))
            finally:
                # Also one that was cut short: it is listed, and takes no part in the figures.
                if (directory / HISTOGRAM_FILE).exists():
                    self.turns.append(Turn.read(number, participant.label, directory))
        note(f"round {number}/{count}  {_line(self.turns[-1])}")


def _line(turn: Turn) -> str:
    found = turn.to_dict()
    p50 = "-" if found["p50_ms"] is None else f"{found['p50_ms']:,.4g} ms"
    verdict = f"INVALID ({', '.join(found['failed'])})"
    if found["valid"]:
        verdict = "VALID, unsteady without a trend" if found["unsteady"] else "VALID"
    return f"{turn.label}: p50 {p50}, {found['inferences_per_s']:,.4g} inferences/s, {verdict}"
