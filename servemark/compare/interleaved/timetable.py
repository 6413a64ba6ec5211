"""Durations of a comparison and its runs: chosen by how fast each engine answers when it is warmed, and announced."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loadgen.load.load_config import LoadConfig
from servemark.compare.interleaved.hosting import Hosted, Participant
from servemark.documents.load import ConstantRate
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.quantities import duration_text, figure
from servemark.results.constraints import MAX_WINDOWS, STEADY_REQUESTS
from servemark.results.directory import read_latency
from servemark.results.objectives import Objectives, highest_percentile
from servemark.runs.locust_process import drive
from servemark.search.max_rate import PROBE_CONCURRENCY, probe
from servemark.search.posterior import lowest_rate
from servemark.search.refinement import MIN_ROUNDS, ROUND_RUNS
from servemark.stats.percentiles import samples_needed

SERVER_TURN_S = 12.0
"""Start, warm-up and end of a server; the slowest of `servers.products` takes twice as long."""
SEARCH_RUNS = 13
"""Typical number of runs that a search for a highest rate takes, its probe included."""
SHORTEST_S, MAX_DURATION_S = 8.0, 120.0
SPARE = 1.25
"""A round may find the machine slower than its warm-up did."""
SEARCHED_SHARE = 0.5
"""Lowest share of the warm-up's rate that a search for the highest rate can judge: most objectives lie above."""
CLOSED_REQUESTS = 60
WARM_S = 2.0
"""Duration for which each engine answers before the first round, after a warm-up that ends by itself. Then the work
that it does once (allocate, compile) is over."""
MOST_LOOKS = 6
"""Maximum number of warm-ups of an engine that is not steady yet, because it goes on compiling."""
FASTER = 1.1
"""Factor by which the next warm-up of an engine that goes on compiling answers more. One that answers no more than
before is not steady by its nature, which no warm-up changes."""
WARM_TIMEOUT_S = 300
"""A model that compiles on its first request may take minutes for it."""
MIN_ANSWERS = 4
"""Minimum answers per connection: the first, which may have taken minutes, must not hide the speed of the others."""


@dataclass(frozen=True)
class EngineWarmUp:
    """Figures of an engine's warm-up."""

    rate: float
    """Requests/s in a closed loop, by its median latency."""
    overhead_s: float
    """Time of a run besides its own warm-up and its measured seconds."""
    server_s: float = 0.0
    """Time to start, warm and end a server, if each turn has its own."""


def answer(participant: Participant, hosted: Hosted) -> EngineWarmUp:
    """Let the engine answer until it is steady, for WARM_S at least; discard the result. Raises ServerError."""
    note(f"warming {participant.label}")
    connections = participant.config.concurrency or PROBE_CONCURRENCY
    config = hosted.asked(participant.config).changed(request_timeout_s=WARM_TIMEOUT_S)
    count, steady, found = _answer_once(config, connections)
    if count < MIN_ANSWERS * connections:
        _, steady, found = _answer_once(config, connections)
    looks, before = 1, 0.0
    while not steady and looks < MOST_LOOKS and found.rate > FASTER * before:
        looks, before = looks + 1, found.rate
        _, steady, found = _answer_once(config, connections)
    if not steady:
        note(f"{participant.label} was not steady: give a longer --warmup")
    return found


def _answer_once(config: LoadConfig, connections: int) -> tuple[int, bool, EngineWarmUp]:
    """Return the number of answers, whether the latency was steady (True if unknown), and the figures."""
    start_s = time.monotonic()
    with scratch_folder("warm-up") as folder:
        result = probe(drive, replace(config, result_dir=folder), connections, WARM_S)
        latency = read_latency(folder, result).answered()
    seconds = time.monotonic() - start_s
    rate = connections / (latency.percentile(50) / 1e3)
    scenario = result["scenario"]
    overhead_s = seconds - (scenario["measured_s"] or 0.0) - (scenario["warmup_s"] or 0.0)
    steady = scenario.get("warmup", {}).get("steady")
    return latency.count, steady is not False, EngineWarmUp(rate, overhead_s)


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
        # With fewer a round is INVALID, or its objective's percentile unknown.
        fewest = max(STEADY_REQUESTS, samples_needed(percentile or 50))
        if rate * config.duration_s < fewest:
            note(
                f"{who} requests/s; a round's verdict needs {fewest:,}, and {config.duration_s:g} s have fewer, so "
                f"that rounds will be INVALID: leave out --duration, or --duration {enough_s:.0f}"
            )
        return config.duration_s
    length_s = _whole(enough_s)
    why = f"{who} requests/s; a round's verdict needs {requests:,}"
    if requests > length_s * rate:
        note(f"{why}: too many for {MAX_DURATION_S:g} s; --duration {enough_s:.0f} would be enough")
    elif SPARE * requests > config.duration_s * rate:
        note(f"{why} (--duration sets another length)")
    return length_s


def requests_needed(*, closed: bool, percentile: float | None) -> int:
    """Return the number of requests that a round needs for its windows' figures and its objective's percentile.

    An open loop's windows are judged by their p50, a closed one's by counts.
    """
    windows = CLOSED_REQUESTS if closed else MAX_WINDOWS * samples_needed(50)
    return max(windows, samples_needed(percentile or 50))


def search_length_s(percentile: float, rate: float) -> float:
    """Return the whole seconds in which a search's run near `rate` requests/s has enough requests for its percentile.

    They are enough for its windows too: short ones would make a random run look unsteady, as if its rate were too high.
    """
    requests = max(lowest_rate(percentile, 1.0), requests_needed(closed=False, percentile=percentile))
    return _whole(requests / (SEARCHED_SHARE * rate))


def _whole(seconds: float) -> float:
    """Return whole seconds that hold these, within the limits of a run."""
    return min(max(float(math.ceil(seconds)), SHORTEST_S), MAX_DURATION_S)
