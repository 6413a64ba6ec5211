"""`servemark compare --max-rate`: each engine's highest rate by a search, then again in interleaved rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loadgen.load.scenario import ConstantRate
from servemark.comparison.hosting import Participant, ServerFactory
from servemark.comparison.warm_up import answer, drive_captured
from servemark.errors import OptionError
from servemark.max_rate.refinement import HighestRate, round_order
from servemark.max_rate.runs import RateRuns, find_max_rate, write_max_rate
from servemark.output import note
from servemark.workload import Slo


@dataclass
class RateRounds:
    """The highest rates of one comparison, by label; they grow, and `keep` is called whenever they have."""

    participants: Sequence[Participant]
    slo: Slo | None
    load: ConstantRate
    folder: Path
    server: ServerFactory
    keep: Callable[[], None]
    warm_each_turn: bool
    rates: dict[str, HighestRate] = field(default_factory=dict)
    _runs: dict[str, RateRuns] = field(default_factory=dict)

    def run(self, count: int) -> None:
        """Search for each engine's rate, then find all of them again in so many rounds.

        An engine whose rate is no longer met, or is the generator's, leaves the rounds; without the first engine, or
        alone, the others have nothing to be compared with. Raises ServerError, NoResultError, KeyboardInterrupt.
        """
        by_label = {participant.label: participant for participant in self.participants}
        for participant in self.participants:
            self._search(participant)
            self.keep()
        for number in range(1, count + 1):
            for label in round_order(self._sound(), number):
                self._repeat(by_label[label], number, count)
            self.keep()

    def _sound(self) -> list[str]:
        """Who takes part in the next round."""
        labels = [label for label, rate in self.rates.items() if rate.reason is None]
        return labels if len(labels) > 1 and self.participants[0].label in labels else []

    def _search(self, participant: Participant) -> None:
        """Search one engine's highest rate; where there is none, the reason stands for it."""
        note(f"highest rate of {participant.label}")
        directory = self.folder / f"max-rate-{participant.contender.slug}"
        directory.mkdir()
        with self.server(participant.model) as address:
            config = replace(participant.config.at(address), slo=self.slo)
            runs = RateRuns(config, self.load, directory, drive_captured)
            try:
                found = find_max_rate(runs)
            except OptionError as error:
                reason = f"{error.what}; {error.fix}"
                self.rates[participant.label] = HighestRate(None, reason, directory.name)
                note(f"{participant.label}: {reason}")
                return
        write_max_rate(directory, found)
        self._runs[participant.label] = runs
        self.rates[participant.label] = HighestRate.of(found, directory.name)

    def _repeat(self, participant: Participant, number: int, count: int) -> None:
        rate, runs = self.rates[participant.label], self._runs[participant.label]
        with self.server(participant.model) as address:
            if self.warm_each_turn:
                answer(participant, address, self.folder)
            runs.config = runs.config.at(address)
            rate.repeat(runs.measure, number)
        outcome = rate.reason or f"{rate.rounds[-1]:,.4g} requests/s"
        note(f"rate round {number}/{count}  {participant.label}: {outcome}")
