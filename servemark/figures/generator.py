"""The load generator itself, the clock of its answers' times, and the use of its machine's cores.

Cores are mean numbers in the measured interval. Interrupts are left out.
"""

from collections.abc import Callable

from servemark.figures.evidence import Clock, Evidence, Generator
from servemark.figures.figure import CLOSED_LOOP, NONE_SENT, Distribution, Figure, Join, largest, same, summed
from servemark.figures.throughput import NOT_BEGUN
from servemark.figures.value import CORES, COUNT, MS, SHARE, US, Unit, Value
from servemark.machine.cpu_time import CpuUse
from servemark.stats.histogram import Histogram

NO_NETWORK = "no answer came over a network: the model ran in this process"
_NO_STAMPS = "the kernel stamped no request: Unix sockets have no stamps, and some containers and systems give none"


def _delay_p99(evidence: Evidence) -> Value:
    if not evidence.open_loop or not evidence.schedule_delay.count:
        return Value.unknown(NONE_SENT if evidence.open_loop else CLOSED_LOOP)
    own = evidence.schedule_delay.without(evidence.waited_delay)
    if not own.count:
        return Value.unknown("every request waited for --max-in-flight")
    return Value(own.percentile(99), n=own.count)


def _waited(evidence: Evidence) -> Value:
    if not evidence.open_loop:
        return Value.unknown(CLOSED_LOOP)
    return Value.ratio(evidence.waited_delay.count, evidence.schedule_delay.count, NONE_SENT)


def _own(name: str, words: str, of: Callable[[Generator], int]) -> Figure:
    return Figure(
        f"generator.{name}", COUNT, words, lambda evidence: Value(of(evidence.generator)), join=summed, detail=True
    )


def _clock(name: str, words: str, of: Callable[[Clock], int], join: Join = summed) -> Figure:
    def compute(evidence: Evidence) -> Value:
        return Value(of(evidence.clock)) if evidence.clock else Value.unknown(NO_NETWORK)

    return Figure(f"clock.{name}", COUNT, words, compute, join=join, detail=True)


def _cpu(name: str, words: str, of: Callable[[CpuUse], float], unit: Unit = CORES) -> Figure:
    def compute(evidence: Evidence) -> Value:
        use = evidence.cpu
        return Value.unknown(use) if isinstance(use, str) else Value(of(use))

    return Figure(f"cpu.{name}", unit, words, compute, better="lower" if name == "other_share" else None, join=same)


def _send_error(evidence: Evidence) -> Histogram | str:
    if evidence.clock is None:
        return NO_NETWORK
    return evidence.clock.send_error if evidence.clock.send_error.count else _NO_STAMPS


FIGURES = (
    Figure(
        "generator.cpu",
        SHARE,
        "Share of one core that it used. Of several processes the busiest.",
        lambda evidence: Value.of(evidence.generator.cpu_utilization, NOT_BEGUN),
        better="lower",
        join=largest,
        title="share of a core",
        detail=True,
    ),
    _own("max_in_flight", "Most requests that were in flight.", lambda generator: generator.max_in_flight),
    Figure(
        "generator.waited_share",
        SHARE,
        "Share of requests that waited for --max-in-flight.",
        _waited,
        better="lower",
        join=largest,
        detail=True,
    ),
    Figure(
        "generator.delay_p99",
        MS,
        "Schedule delay of the requests that did not wait for --max-in-flight, at p99.",
        _delay_p99,
        better="lower",
        detail=True,
    ),
    Figure(
        "generator.sampling_cpu",
        SHARE,
        "Share of one core that reading the meters for `series.json` took.",
        lambda evidence: Value.of(evidence.generator.sampling_cpu_utilization, "no meters were read for series.json"),
        better="lower",
        detail=True,
    ),
    _own("workers", "Processes that sent the load.", lambda generator: generator.workers),
    _own(
        "requests_outside_interval",
        "Requests outside the measured interval: the warm-up, those after it, and the single ones before the load.",
        lambda generator: generator.outside,
    ),
    Figure(
        "generator.cpu_latency",
        US,
        "Time in which idle cores of the generator's machine had to wake up while it sent (CPU latency QoS).",
        lambda evidence: evidence.generator.cpu_latency,
        detail=True,
    ),
    _clock("unstamped", "Readings to which the kernel gave no stamp.", lambda clock: clock.missing),
    _clock(
        "refused",
        "Stamps before the sending or after the reading: the time of the reading stands.",
        lambda clock: clock.refused,
    ),
    _clock(
        "steps",
        "Steps of the time of day, after each of which stamps are refused for 0.1 s.",
        lambda clock: clock.steps,
        join=largest,
    ),
    Distribution("send_error", "From the process's time of sending to the kernel's, of a sample.", _send_error),
    _cpu("available", "Cores that may be used, by affinity and quota.", lambda use: use.allowed),
    _cpu(
        "generator", "Used by the generator, and by the command that started it.", lambda use: use.groups["generator"]
    ),
    _cpu(
        "server",
        "Used by the server. 0: it runs on another machine, or in the generator.",
        lambda use: use.groups["server"],
    ),
    _cpu("other", "Used by other work.", lambda use: use.other),
    _cpu("stolen", "Taken by other virtual machines (steal).", lambda use: use.stolen),
    _cpu(
        "other_share",
        "Share of the cores that other work and other virtual machines took.",
        lambda use: use.other_cpu_share,
        SHARE,
    ),
)
