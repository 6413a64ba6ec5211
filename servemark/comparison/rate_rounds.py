"""`servemark compare --max-rate`: each engine's highest rate by a search, then again in interleaved rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servemark.comparison.hosting import Host, Place
from servemark.comparison.validity import order
from servemark.comparison.warm_up import LOAD, quietly, warm_up
from servemark.errors import OptionError
from servemark.max_rate.refinement import HighestRate
from servemark.max_rate.runs import RateRuns, find, write
from servemark.output import note
from servemark.runs.locust_process import check


@dataclass
class RateRounds:
    """The highest rates of one comparison, by label; they grow, and `keep` is called whenever they have."""

    places: Sequence[Place]
    slo: str
    duration_s: float
    folder: Path
    host: Host
    keep: Callable[[], None]
    warm_each_turn: bool
    rates: dict[str, HighestRate] = field(default_factory=dict)
    _runs: dict[str, RateRuns] = field(default_factory=dict)

    def run(self, count: int) -> None:
        """Search for each engine's rate, then find all of them again in so many rounds.

        An engine whose rate is no longer met, or is the generator's, leaves the rounds; without the first engine, or
        alone, the others have nothing to be held against. Raises ServerError, typer.Exit, KeyboardInterrupt.
        """
        by_label = {place.label: place for place in self.places}
        for place in self.places:
            self._search(place)
            self.keep()
        for number in range(1, count + 1):
            for label in order(self._sound(), number):
                self._again(by_label[label], number, count)
            self.keep()

    def _sound(self) -> list[str]:
        """Who takes part in the next round."""
        labels = [label for label, rate in self.rates.items() if rate.reason is None]
        return labels if len(labels) > 1 and self.places[0].label in labels else []

    def _search(self, place: Place) -> None:
        """Search one engine's highest rate; where there is none, the reason stands for it."""
        note(f"highest rate of {place.label}")
        directory = self.folder / f"max-rate-{place.contender.slug}"
        directory.mkdir()
        own = {name: value for name, value in place.flags.items() if name not in LOAD}
        flags = {**own, "slo": self.slo, "duration": f"{self.duration_s:g}"}
        with self.host(place.model) as address:
            config = check(flags, place.config.seed, address)
            runs = RateRuns(config, {**flags, "host": address}, config.seed, directory, quietly)
            try:
                found = find(runs)
            except OptionError as error:
                reason = f"{error.what}; {error.fix}"
                self.rates[place.label] = HighestRate(None, reason, directory.name)
                note(f"{place.label}: {reason}")
                return
        write(directory, found)
        self._runs[place.label] = runs
        self.rates[place.label] = HighestRate.of(found, directory.name)

    def _again(self, place: Place, number: int, count: int) -> None:
        rate, runs = self.rates[place.label], self._runs[place.label]
        with self.host(place.model) as address:
            if self.warm_each_turn:
                warm_up(place, address, self.folder)
            runs.flags = {**runs.flags, "host": address}
            rate.repeat(runs.measure, number)
        said = rate.reason or f"{rate.rounds[-1]:,.4g} requests/s"
        note(f"rate round {number}/{count}  {place.label}: {said}")
