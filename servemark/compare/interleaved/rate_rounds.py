"""`servemark compare --max-rate`: each engine's highest rate by a search, then again in interleaved rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from servemark.compare.interleaved.hosting import Hosted, Participant
from servemark.compare.interleaved.rounds import Rounds
from servemark.documents.load import ConstantRate
from servemark.errors import OptionError
from servemark.output import note
from servemark.results.objectives import Objectives, written
from servemark.runs.locust_process import drive
from servemark.search.max_rate.refinement import HighestRate
from servemark.search.max_rate.runs import RateRuns, find_max_rate, write_max_rate


@dataclass
class RateTurns:
    """The highest rates of one comparison, by label: they grow with each search, then with each turn of the rounds."""

    participants: Sequence[Participant]
    slo: Objectives
    load: ConstantRate
    rates: dict[str, HighestRate] = field(default_factory=dict)
    _runs: dict[str, RateRuns] = field(default_factory=dict)

    def run(self, rounds: Rounds, count: int) -> None:
        """Search for each engine's rate, then find all of them again in `count` rounds.

        Raises ServerError, NoResultError, KeyboardInterrupt.
        """
        for participant in self.participants:
            self._search(participant, rounds)
            rounds.keep()
        rounds.run(count, self, "rate round")

    def sides(self) -> Sequence[Participant]:
        """Return the participants of the next round.

        An engine whose rate is no longer met, or is limited by the generator, leaves the rounds. They end if the first
        engine leaves or only one remains, because there is no comparison left.
        """
        sound = [participant for participant in self.participants if self.rates[participant.label].reason is None]
        return sound if len(sound) > 1 and sound[0] is self.participants[0] else []

    def turn(self, participant: Participant, hosted: Hosted, number: int) -> str:
        """Find one engine's rate again."""
        rate, runs = self.rates[participant.label], self._runs[participant.label]
        runs.config = hosted.asked(runs.config)
        rate.repeat(runs.measure, number)
        return rate.reason or f"{rate.rounds[-1]:,.4g} requests/s"

    def _search(self, participant: Participant, rounds: Rounds) -> None:
        """Search one engine's highest rate; where there is none, the reason stands for it."""
        note(f"highest rate of {participant.label}")
        directory = rounds.folder / f"max-rate-{participant.contender.slug}"
        directory.mkdir()
        with rounds.server(participant) as hosted:
            config = hosted.asked(participant.config).changed(slo=written(self.slo))
            runs = RateRuns(config, self.load, directory, drive, despite_busy=True)
            try:
                found = find_max_rate(runs)
            except OptionError as error:
                reason = f"{error.what}; {error.fix}"
                self.rates[participant.label] = HighestRate(None, reason, directory.name)
                note(f"{participant.label}: {reason}")
                return
        write_max_rate(runs, found)
        self._runs[participant.label] = runs
        self.rates[participant.label] = HighestRate.of(found, directory.name)
