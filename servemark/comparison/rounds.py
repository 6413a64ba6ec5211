"""Interleaved rounds: A B C, C B A, ..., each turn a real run against one server for all or one for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servemark.comparison.document import Turn
from servemark.comparison.hosting import Host, Place
from servemark.comparison.validity import order
from servemark.comparison.warm_up import quietly, warm_up
from servemark.output import note
from servemark.results.directory import HISTOGRAM_FILE


@dataclass
class Rounds:
    """The rounds of one comparison; `turns` grows, and `keep` is called with each round that is whole."""

    places: Sequence[Place]
    seed: int
    folder: Path
    host: Host
    keep: Callable[[Sequence[Turn]], None]
    warm_each_turn: bool
    turns: list[Turn] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Measure so many rounds. Raises ServerError, typer.Exit where a run has no result, KeyboardInterrupt."""
        by_label = {place.label: place for place in self.places}
        for number in range(1, count + 1):
            for label in order(list(by_label), number):
                self._turn(number, count, by_label[label])
            self.keep(self.turns)

    def _turn(self, number: int, count: int, place: Place) -> None:
        directory = self.folder / f"{len(self.turns) + 1:02}-{place.contender.slug}"
        with self.host(place.model) as address:
            if self.warm_each_turn:
                warm_up(place, address, self.folder)
            directory.mkdir()
            flags = {**place.flags, "host": address, "seed": self.seed + number - 1}
            try:
                quietly(place.config, flags, directory)
            finally:
                # Also one that was cut short: it is listed, and takes no part in the figures.
                if (directory / HISTOGRAM_FILE).exists():
                    self.turns.append(Turn.read(number, place.label, directory))
        note(f"round {number}/{count}  {_line(self.turns[-1])}")


def _line(turn: Turn) -> str:
    found = turn.to_dict()
    p50 = "-" if found["p50_ms"] is None else f"{found['p50_ms']:,.4g} ms"
    verdict = f"INVALID ({', '.join(found['failed'])})"
    if found["valid"]:
        verdict = "VALID, unsteady without a trend" if found["unsteady"] else "VALID"
    return f"{turn.label}: p50 {p50}, {found['inferences_per_s']:,.4g} inferences/s, {verdict}"
