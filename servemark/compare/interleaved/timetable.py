"""Duration of a comparison and of its runs: chosen from the warm-ups, announced before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servemark.compare.interleaved.hosting import Participant
from servemark.compare.interleaved.validity import (
    MAX_DURATION_S,
    SPARE,
    fewest_requests,
    requests_needed,
    round_length_s,
    search_length_s,
)
from servemark.compare.interleaved.warm_up import EngineWarmUp
from servemark.documents.load import ConstantRate
from servemark.output import note
from servemark.quantities import duration_text, figure
from servemark.results.objectives import Objectives, highest_percentile
from servemark.search.max_rate.refinement import MIN_ROUNDS, ROUND_RUNS

SERVER_TURN_S = 12.0
"""Start, warm-up and end of a server; the slowest of `servers.products` takes twice as long."""
SEARCH_RUNS = 13
"""Typical number of runs that a search for a highest rate takes, its probe included."""


@dataclass(frozen=True)
class Timetable:
    """Seconds of each round's run and of each run of a search, and the number of rounds of both."""

    round_s: float
    rounds: int
    search_s: float = 0.0
    rate_rounds: int = 0

    def turn_s(self, participant: Participant, known: EngineWarmUp) -> float:
        """Estimate the time of a participant's turn in a round."""
        return known.server_s + self.round_s + participant.config.warmup_s + known.overhead_s

    def seconds(self, participants: Sequence[Participant], warmed: Mapping[str, EngineWarmUp]) -> tuple[float, float]:
        """Estimate the times of the rounds and of the highest rates."""
        rounds = rates = 0.0
        for participant in participants:
            known = warmed[participant.label]
            rounds += self.rounds * self.turn_s(participant, known)
            if self.rate_rounds:
                run_s = self.search_s + participant.config.warmup_s + known.overhead_s
                rates += (1 + self.rate_rounds) * known.server_s + (SEARCH_RUNS + self.rate_rounds * ROUND_RUNS) * run_s
        return rounds, rates

    def announce(self, participants: Sequence[Participant], warmed: Mapping[str, EngineWarmUp]) -> None:
        """Print the expected duration."""
        rounds, rates = self.seconds(participants, warmed)
        plural = "s" if self.rounds > 1 else ""
        each = f"{self.rounds} round{plural} of {self.round_s:g} s"
        several = len({participant.config.server.url for participant in participants}) > 1
        kind = "server" if several else participants[0].contender.kind
        note(f"{each} for each of {len(participants)} {kind}s: about {duration_text(rounds)}")
        if self.rate_rounds:
            note(
                f"then each {kind}'s highest rate, by a search and {self.rate_rounds} rounds of runs of "
                f"{self.search_s:g} s: about {duration_text(rates)}, {duration_text(rounds + rates)} in all"
            )


def timetable(
    participants: Sequence[Participant],
    warmed: Mapping[str, EngineWarmUp],
    rounds: int,
    slo: Objectives,
    *,
    chosen: bool,
) -> Timetable:
    """Return the durations: --duration or, if `chosen`, the time that the slowest engine needs for a verdict.

    `slo` are the objectives of the searches for the highest rates; without searches there are none.
    """
    round_s = _round_s(participants, warmed, chosen=chosen)
    if not slo:
        return Timetable(round_s, rounds)
    slowest, percentile = min(known.rate for known in warmed.values()), highest_percentile(slo) or 50.0
    search_s = search_length_s(percentile, slowest) if chosen else participants[0].config.duration_s
    return Timetable(round_s, rounds, search_s, rate_rounds(rounds))


def rate_rounds(rounds: int) -> int:
    """Return the number of rounds in which the highest rates are found again."""
    return max(MIN_ROUNDS, rounds // 2)


def _round_s(participants: Sequence[Participant], warmed: Mapping[str, EngineWarmUp], *, chosen: bool) -> float:
    """Return the length of the rounds: for the slowest engine if `chosen`, else --duration.

    Prints the reason where it is not the shortest, and a warning where --duration is too short for a verdict.
    """
    config = participants[0].config
    percentile = highest_percentile(config.slo)
    requests = requests_needed(closed=not config.open_loop, percentile=percentile)
    slowest = min(warmed, key=lambda label: warmed[label].rate)
    rate, who = warmed[slowest].rate, f"{slowest} answers about {figure(warmed[slowest].rate)}"
    if isinstance(config.scenario.load, ConstantRate):
        rate, who = config.scenario.rate, f"there are {config.scenario.rate:g}"
    enough_s = SPARE * requests / rate
    if not chosen:
        fewest = fewest_requests(percentile)
        if rate * config.duration_s < fewest:
            note(
                f"{who} requests/s; a round's verdict needs {fewest:,}, and {config.duration_s:g} s have fewer, so "
                f"that rounds will be INVALID: leave out --duration, or --duration {enough_s:.0f}"
            )
        return config.duration_s
    length_s = round_length_s(requests, rate)
    why = f"{who} requests/s; a round's verdict needs {requests:,}"
    if requests > length_s * rate:
        note(f"{why}: too many for {MAX_DURATION_S:g} s; --duration {enough_s:.0f} would be enough")
    elif SPARE * requests > config.duration_s * rate:
        note(f"{why} (--duration sets another length)")
    return length_s
