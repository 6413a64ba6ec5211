"""The constraints of a run; docs/explanation/verdict.md has the reasons for each."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from servemark.machine.cpu_time import QUIET_SHARE, SHOWN_CORES, CpuUse
from servemark.quantities import figure
from servemark.results.objectives import Seen, judge_objective
from servemark.results.schema.details import Constraint, VerdictOfRun
from servemark.results.verdict import Kind, at_most, conclude, constraint
from servemark.stats.percentiles import samples_needed
from servemark.stats.trend import FEWEST, RELEVANT, TAIL_GROWTH, drift, is_growing, max_over_min, tail_growth

ACHIEVED_SHARE = 0.99
"""An open loop must complete at least this share of what was scheduled."""
SCHEDULE_DELAY_MS = 1.0
SCHEDULE_DELAY_SHARE = 0.01
"""The generator may send late by 1 ms or 1 % of the latency at p99, whichever is larger."""
CPU_SHARE = 0.90
"""Above this share of one core the generator is taken to limit the run."""
PAUSE_MS = 100.0
PAUSE_SHARE = 0.001
"""The generator may stand still for 100 ms at a time, or for 0.1 % of the interval, whichever is larger. A pause of
0.1 % reaches p99.9, the highest percentile of a report. Shorter ones are those of a busy machine's scheduler."""
CLOCK_UNCERTAINTY_MS = 10.0
"""Workers that begin this far apart still make one process: far less than a window, some gaps at a high rate."""
MAX_WINDOWS = 10
MAX_PROLONGED_WINDOWS = 2 * FEWEST
"""A run that is prolonged beyond them goes on in windows twice as long, of which there are still enough to judge."""
SHORTEST_WINDOW_S = 0.5
STEADY_REQUESTS = 30
"""Minimum number of requests to judge a drift."""


class WindowFigures(NamedTuple):
    """Figures of the requests that were scheduled in one window."""

    answered: float
    """Answers; in an open loop as a share of the scheduled requests."""
    p50_ms: float | None
    slow: int = 0
    """Requests beyond the p99 of all windows, failed ones included."""


Windows = Sequence[WindowFigures]


@dataclass(frozen=True)
class Observations:
    """Figures that the verdict judges; times in ms, rates in requests/s."""

    requests: int
    measured_s: float
    errors: int
    max_error_rate: float
    cpu_utilization: float
    windows: Windows
    """Windows of the measured interval, in order."""
    longest_pause_ms: float = 0.0
    """Longest time in which the generator neither sent a request nor read an answer."""
    machine: CpuUse | None = None
    """Use of this machine's cores; None if it is not known."""
    stages: Sequence[Windows] = ()
    """Windows of each stage, if the rate changes by steps: steadiness is judged within each."""
    timeouts: int = 0
    """Number of errors that are requests without an answer in time."""
    unsent: int = 0
    """Number of errors that are requests never sent."""
    open_loop: bool = False
    kernel_clock: bool = False
    """True if the kernel told when answers came, so that none waited for the generator."""
    unfinished_growth: int = 0
    """Requests in flight at the end of the interval minus those at its start."""
    in_flight_edges: int = 0
    """Requests in flight at the start plus at the end of the interval."""
    growth_of_windows: Sequence[int] = ()
    """The growth in each window; () where the rate changes by itself."""
    schedule_delay_p99_ms: float = 0.0
    """The lower end of its 95 % interval, so that a few late sends by chance do not condemn a generator."""
    generator_delay_p99_ms: float | None = None
    """The same for requests that did not wait for --max-in-flight; None: it is not known which requests waited."""
    lower: str = "lower the load"
    """Advice where the generator is too slow for this load."""
    longer: str = "raise --duration"
    """Advice for more requests; " to about 26 s" may follow."""
    relief: str = "lower the load, tune the server, or serve with more instances"
    """Advice where the server is too slow for it."""
    not_realtime: str | None = None
    """Reason why the sending thread had no real-time priority; None if it had."""
    latency_p99_ms: float = 0.0
    objectives: Sequence[Seen] = ()
    output_mismatch: str | None = None
    """Name and discrepancy of an output that differs from the golden one, and the remedy."""
    outputs_checked: int | None = None
    """None: there are no golden outputs to compare with."""
    server_restarted: bool = False
    server_gone: bool = False
    backend_died: bool = False
    generator_errors: int = 0
    """Number of the load generator's own errors."""
    interrupted: str | None = None
    workers: int = 0
    """Number of processes that sent the load; 0: this one alone."""
    worker_troubles: Sequence[str] = ()
    """Workers that did not send their share, with the reason."""
    clock_uncertainty_ms: float = 0.0
    """Largest possible difference between the workers' start times."""
    skipped: Mapping[str, str] = field(default_factory=dict)


def judge(seen: Observations) -> VerdictOfRun:
    """Judge a run by the constraints that apply to it, and its objectives."""
    constraints = [_completed(seen)]
    if seen.machine is not None and Kind.OTHER_LOAD not in seen.skipped:
        constraints.append(other_load(seen.machine))
    if Kind.ERROR_RATE not in seen.skipped:
        constraints.append(_errors(seen))
    if seen.open_loop:
        constraints += [_achieved(seen), _schedule_delay(seen)]
    if Kind.CLIENT_CPU not in seen.skipped:
        constraints.append(_cpu(seen))
    if not (seen.open_loop and seen.kernel_clock):  # there a pause can only make requests late, which is judged
        constraints.append(_pause(seen))
    constraints.append(_samples(seen))
    if Kind.STEADY_STATE not in seen.skipped:
        constraints.append(_steady(seen))
    if Kind.SERVER_ALIVE not in seen.skipped:
        constraints.append(_server(seen))
    if seen.generator_errors:
        remedy = "an error of servemark, not of the server: report it with the words of generator_error"
        constraints.append(constraint(Kind.GENERATOR_ERRORS, False, seen.generator_errors, 0, "requests", remedy))
    if seen.outputs_checked is not None:
        constraints.append(_outputs(seen))
    if seen.workers:
        constraints += [_workers(seen), _clocks(seen)]
    objectives = [judge_objective(each, functools.partial(_longer, seen), seen.relief) for each in seen.objectives]
    return conclude(constraints, objectives, seen.skipped)


def _completed(seen: Observations) -> Constraint:
    asked = (seen.interrupted or "").startswith("--abort-on")
    advice = "lower the load, or raise that limit" if asked else "let the run end by itself"
    remedy = "; ".join(filter(None, [seen.interrupted, advice]))
    return constraint(Kind.COMPLETED, seen.interrupted is None, None, None, "", remedy)


def other_load(use: CpuUse) -> Constraint:
    """Judge the other load. It comes first: late sends, unsteady windows and long latencies may only follow from it."""
    took = []
    if use.other >= SHOWN_CORES or use.stolen < SHOWN_CORES:
        by = f", by {use.largest}: stop other work" if use.largest else ", by the kernel and short processes: wait"
        took.append(f"other work took {use.other:.2g} of {use.watched} cores{by}")
    if use.stolen >= SHOWN_CORES:
        took.append(f"other virtual machines took {use.stolen:.2g} of {use.watched} cores: try again later")
    if use.largest and use.groups.get("server"):  # in-process, and where the server is elsewhere, it used nothing here
        took.append("if a part of it serves these requests, name it: --server-process NAME")
    remedy = f"{'; '.join(took)}; or measure on a machine that does nothing else"
    return at_most(Kind.OTHER_LOAD, use.other_cpu_share, QUIET_SHARE, f"share of {use.allowed:g} cores", remedy)


def _errors(seen: Observations) -> Constraint:
    share = seen.errors / seen.requests if seen.requests else 1.0
    remedy = "see the errors by kind; allow more with --max-error-rate"
    if 2 * seen.timeouts > seen.errors:
        remedy = "most were not answered in time: raise --request-timeout, or lower the load"
        if seen.unsent:
            remedy += f" ({seen.unsent:,} were never sent: as many as --max-in-flight were on their way)"
    if not seen.requests:
        remedy = "no request was sent in the measured interval; raise --duration or the rate"
    return at_most(Kind.ERROR_RATE, share, seen.max_error_rate, "share", remedy)


def _achieved(seen: Observations) -> Constraint:
    """Compare completed with scheduled requests, with an allowance for chance.

    The requests in flight at the start count as completed inside, those at the end do not. Both fluctuate: as a Poisson
    number where many are served at once, by far more in a queue. So the number in flight has to grow from window to
    window, too, before the server is said to fall behind. docs/explanation/statistics.md has a simulation.
    """
    scheduled = max(seen.requests, 1)
    share = 1 - (seen.unfinished_growth + seen.errors) / scheduled
    allowance = 3 * max(seen.in_flight_edges, 0) ** 0.5 / scheduled
    if len(seen.growth_of_windows) >= FEWEST and not is_growing(seen.growth_of_windows):
        allowance = max(allowance, seen.unfinished_growth / scheduled)
    limit = min(ACHIEVED_SHARE, 1 - allowance)
    remedy = f"the server cannot keep up: {seen.relief}"
    return constraint(Kind.ACHIEVED_RATE, share >= limit, share, limit, "share of scheduled", remedy)


def _schedule_delay(seen: Observations) -> Constraint:
    limit = schedule_delay_limit_ms(seen.latency_p99_ms)
    value = seen.schedule_delay_p99_ms
    if seen.generator_delay_p99_ms is not None and seen.generator_delay_p99_ms <= limit < value:
        remedy = (
            f"requests waited for --max-in-flight, so the server cannot keep up: {seen.relief}; or raise "
            "--max-in-flight if it can take more at once"
        )
    else:
        remedy = f"the generator is late: {seen.lower}, free a core for it, or raise --max-in-flight if that is reached"
        if seen.not_realtime:
            remedy += f"; it had no real-time priority ({seen.not_realtime})"
    return at_most(Kind.SCHEDULE_DELAY, value, limit, "ms, lower end of its 95 % interval", remedy)


def schedule_delay_limit_ms(latency_p99_ms: float) -> float:
    """Return the limit for a generator's delay at p99."""
    return max(SCHEDULE_DELAY_MS, SCHEDULE_DELAY_SHARE * latency_p99_ms)


def _cpu(seen: Observations) -> Constraint:
    remedy = "the generator, not the server, limits the run: add processes (--workers; Locust: --processes)"
    return at_most(Kind.CLIENT_CPU, seen.cpu_utilization, CPU_SHARE, "share of a core", remedy)


def _pause(seen: Observations) -> Constraint:
    """Judge the longest pause: a closed loop has no schedule that would show it in the latencies."""
    limit = max(PAUSE_MS, PAUSE_SHARE * seen.measured_s * 1e3)
    remedy = (
        "the generator stood still, and answers waited for it: free a core for it, check that nothing stops it "
        "(SIGSTOP, swapping, a paused virtual machine), then run again"
    )
    return at_most(Kind.GENERATOR_PAUSE, seen.longest_pause_ms, limit, "ms", remedy)


def _samples(seen: Observations) -> Constraint:
    needed, count = samples_needed(50), seen.requests - seen.errors
    remedy = f"p50 needs {needed} requests: {_for_requests(seen, needed)}"
    return constraint(Kind.ENOUGH_SAMPLES, count >= needed, count, needed, "requests", remedy)


def _for_requests(seen: Observations, needed: int) -> str:
    """Return the advice that gives `needed` good requests at the rate seen."""
    good = seen.requests - seen.errors
    return _longer(seen, needed / good if good else None)


def _longer(seen: Observations, times: float | None) -> str:
    """Return the advice to measure this many times as long, with a tenth to spare, in seconds to two digits."""
    seconds = 1.1 * (times or 0.0) * seen.measured_s
    if not seconds:
        return seen.longer
    unit = 10 ** max(math.floor(math.log10(seconds)) - 1, 0)
    return f"{seen.longer} to about {math.ceil(seconds / unit) * unit} s"


def _steady(seen: Observations) -> Constraint:
    """Judge the whole interval, or the least steady of its stages."""
    if not seen.stages:
        return _steady_windows(seen, seen.windows)
    judged = [_steady_windows(seen, windows) for windows in seen.stages]
    worst = max(range(len(judged)), key=lambda n: (not judged[n]["ok"], judged[n]["value"] or math.inf))
    found = judged[worst]
    return {**found, "remedy": f"in stage {worst + 1} of those judged: {found['remedy']}"}


def _steady_windows(seen: Observations, windows: Windows) -> Constraint:
    """Judge the drift of a closed loop's throughput, or of an open loop's p50, and the growth of the tail.

    Throughput is concurrency over mean latency in a closed loop (Little's law). In an open one the schedule sets it.
    """
    name, what = Kind.STEADY_STATE, "p50 (ms)" if seen.open_loop else "answers"
    values = [window.p50_ms if seen.open_loop else window.answered for window in windows]
    known = [value for value in values if value is not None]
    missing = _too_little(seen, values, known)
    if missing is not None:
        return constraint(name, False, None, RELEVANT, what, missing)
    shown = " ".join(map(figure, known))
    change, growth = drift(known, carry_over=seen.open_loop), tail_growth([window.slow for window in windows])
    if change is not None:
        way = "up" if change > 1 else "down"
        longer = "give a longer --warmup or --duration, and stop other work"
        remedy = f"{what} drifted {way} over the windows ({shown}): {longer}"
        # Windows that begin with nothing make the ratio infinite, which JSON cannot hold.
        value = max(change, 1 / change) if change and math.isfinite(change) else None
        return constraint(name, False, value, RELEVANT, f"last to first third of the windows' {what}", remedy)
    if growth is not None:
        counts = " ".join(f"{window.slow:,}" for window in windows)
        remedy = (
            f"the tail grew: {counts} requests beyond the p99 over the windows; measure longer, or see what changed"
        )
        return constraint(name, False, growth, TAIL_GROWTH, "last to first third of the windows' slowest 1 %", remedy)
    spread = max_over_min(known)
    value = spread if math.isfinite(spread) else None
    # A scatter has no limit beside it, which it would seem to exceed.
    limit, note = (None, f": scattered, not drifted ({shown})") if spread > RELEVANT else (RELEVANT, "")
    return constraint(name, True, value, limit, f"max/min of the windows' {what}{note}", "")


def _too_little(seen: Observations, values: Sequence[float | None], known: Sequence[float]) -> str | None:
    """Return why steadiness cannot be judged, with what to do; None if it can."""
    if seen.requests - seen.errors < STEADY_REQUESTS:
        return f"{STEADY_REQUESTS} requests are needed to judge steadiness: {_for_requests(seen, STEADY_REQUESTS)}"
    if not known or values[-1] in (None, 0.0):
        return "nothing was answered in the last window: see the errors by kind and the server's log"
    if len(known) < FEWEST:
        shortest = f"{seen.longer} to {FEWEST * SHORTEST_WINDOW_S:g} s or more"
        return f"fewer than {FEWEST} windows have a figure: {shortest}"
    return None


def _server(seen: Observations) -> Constraint:
    remedy = "the server restarted during the run: read its log, then run again"
    if seen.server_gone:
        remedy = "the server did not answer after the run: read its log, then run again"
    if seen.backend_died:
        remedy = "the process that ran the model died: read the server's log, restart the server, then run again"
    ok = not (seen.server_restarted or seen.server_gone or seen.backend_died)
    return constraint(Kind.SERVER_ALIVE, ok, None, None, "", remedy)


def _outputs(seen: Observations) -> Constraint:
    checked, mismatch = seen.outputs_checked or 0, seen.output_mismatch
    remedy = (mismatch or "") if checked else "no golden request was answered: raise --duration"
    return constraint(Kind.OUTPUT_AGREEMENT, checked > 0 and mismatch is None, checked, 1, "outputs checked", remedy)


def _workers(seen: Observations) -> Constraint:
    """Judge the workers. A run goes on without a lost worker and keeps the requests of the others."""
    troubles = seen.worker_troubles
    good = seen.workers - len(troubles)
    return constraint(Kind.WORKERS, not troubles, good, seen.workers, "workers", "; ".join(troubles))


def _clocks(seen: Observations) -> Constraint:
    remedy = "the workers may have begun that far apart: use a faster or quieter network between master and workers"
    return at_most(Kind.CLOCK_SYNC, seen.clock_uncertainty_ms, CLOCK_UNCERTAINTY_MS, "ms", remedy)
