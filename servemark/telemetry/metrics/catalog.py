"""Every metric that a run exposes, those of its figures and those of its state, and a run's state at one moment."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from servemark.figures.figure import Distribution, Figure
from servemark.figures.registry import distributions, registry
from servemark.stats.histogram import Histogram

RUN_LABELS = ("workload", "engine", "precision", "device", "scenario", "run")
"""On every sample; "" where it is not known."""
LOWEST_S, HIGHEST_S = 0.0002, 60.0
"""Between these a percentile from classic buckets is within 10 % of the result's."""
LOWEST_DELAY_S = 0.00001


class Kind(StrEnum):
    """Prometheus's types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """One metric; `labels` are its own, beside those of the run."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    lowest_s: float = LOWEST_S
    """A histogram's lowest bound."""


_COUNTER, _GAUGE = Kind.COUNTER, Kind.GAUGE

REQUESTS = Metric(
    "servemark_requests_total",
    _COUNTER,
    "Requests that have ended. kind: of failure, empty where it succeeded.",
    ("outcome", "kind"),
)
SCHEDULED = Metric("servemark_requests_scheduled_total", _COUNTER, "Requests that were due by the schedule.")
SENT = Metric("servemark_requests_sent_total", _COUNTER, "Requests that were handed to the socket.")
IN_FLIGHT = Metric("servemark_requests_in_flight", _GAUGE, "Requests that were sent and are not answered.")
BACKLOG = Metric("servemark_requests_backlog", _GAUGE, "Requests that are due and wait for --max-in-flight.")
REQUESTED_RATE = Metric(
    "servemark_requested_rate", _GAUGE, "Requests/s that the schedule asks for now. Absent in a closed loop."
)
STAGE = Metric("servemark_stage", _GAUGE, "Number of the stage that goes on, from 0.")
STAGE_START = Metric(
    "servemark_stage_start_timestamp_seconds", _GAUGE, "When that stage began, in seconds since the epoch."
)
MEASURING = Metric("servemark_measuring", _GAUGE, "1 in the measured interval, 0 in warm-up and drain.")
CLIENT_CPU = Metric(
    "servemark_client_cpu_ratio", _GAUGE, "Share of one core that the generator used, of several processes the busiest."
)
CONSTRAINT_OK = Metric(
    "servemark_constraint_ok", _GAUGE, "1 where a constraint of the verdict holds as it stands, or 0.", ("constraint",)
)
OBJECTIVE_LIMIT = Metric(
    "servemark_objective_limit", _GAUGE, "Limit of an objective (--slo), in its unit.", ("objective", "unit")
)
OBJECTIVE_ALLOWED = Metric(
    "servemark_objective_allowed_ratio",
    _GAUGE,
    "Share of requests that an objective lets break its limit: 0.01 for a p99.",
    ("objective",),
)
OBJECTIVE_BREACHES = Metric(
    "servemark_objective_breaches_total",
    _COUNTER,
    "Requests over the limit of a percentile's objective. A failed one is.",
    ("objective",),
)
OBJECTIVE_BURNED = Metric(
    "servemark_objective_budget_burned_ratio",
    _GAUGE,
    "Breaches over those that the objective allows of the requests so far. Above 1 it is missed.",
    ("objective",),
)
POWER = Metric("servemark_power_watts", _GAUGE, "Power as the meter reads it.", ("boundary", "source"))
ENERGY = Metric(
    "servemark_energy_joules_total", _COUNTER, "Energy since the measured interval began.", ("boundary", "source")
)
GPU_UTILIZATION = Metric(
    "servemark_gpu_utilization_ratio", _GAUGE, "Share of time in which a kernel ran (NVML).", ("gpu",)
)
GPU_MEMORY = Metric("servemark_gpu_memory_used_bytes", _GAUGE, "Memory in use on the GPU (NVML).", ("gpu",))
GPU_POWER = Metric("servemark_gpu_power_watts", _GAUGE, "Power of the board (NVML).", ("gpu",))
GPU_TEMPERATURE = Metric("servemark_gpu_temperature_celsius", _GAUGE, "Temperature of the GPU (NVML).", ("gpu",))
GPU_SM_CLOCK = Metric("servemark_gpu_sm_clock_hertz", _GAUGE, "Clock of the multiprocessors (NVML).", ("gpu",))
GPU_THROTTLED = Metric(
    "servemark_gpu_throttled", _GAUGE, "1 where the clock is held back for this reason (NVML).", ("gpu", "reason")
)
CPU_UTILIZATION = Metric("servemark_cpu_utilization_ratio", _GAUGE, "Share of this machine's cores in use.")
MEMORY = Metric("servemark_memory_used_bytes", _GAUGE, "Memory in use on this machine.")
RUN_INFO = Metric(
    "servemark_run_info", _GAUGE, "Always 1. What the run is.", ("version", "model", "protocol", "batch_size")
)


def of_distribution(distribution: Distribution) -> Metric:
    """Return the histogram of a distribution that has one."""
    help_ = f"{distribution.help} Of answered requests."
    lowest_s = LOWEST_DELAY_S if distribution.tag == "schedule_delay" else LOWEST_S
    return Metric(distribution.metric, Kind.HISTOGRAM, help_, lowest_s=lowest_s)


def of_figure(figure: Figure) -> Metric | None:
    """Return the gauge of a figure; None where a histogram has it."""
    if figure.distribution is not None and figure.distribution.metric:
        return None
    return Metric(figure.metric, Kind.GAUGE, figure.help)


_STATE = tuple(each for each in tuple(vars().values()) if isinstance(each, Metric))


@functools.cache
def by_name() -> dict[str, Metric]:
    """All metrics, by name: those of the figures, and of the run's state."""
    histograms = [of_distribution(each) for each in distributions().values() if each.metric]
    gauges = [metric for figure in registry().values() if (metric := of_figure(figure)) is not None]
    return {metric.name: metric for metric in (*histograms, *_STATE, *gauges)}


class Sample(NamedTuple):
    """One value of a counter or gauge; `labels` are the values of its own labels, in their order."""

    name: str
    value: float
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, metric: Metric, value: float, *labels: str) -> Self:
        """A sample of a metric. Raises ValueError where it is none of it."""
        if metric.kind is Kind.HISTOGRAM or len(labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has {len(metric.labels)} labels of its own, not {labels}")
        return cls(metric.name, float(value), labels)


@dataclass(frozen=True)
class Snapshot:
    """One moment of a run. `run` has the labels of every sample, `histograms` those of the catalog by name."""

    run: Mapping[str, str]
    samples: Sequence[Sample] = ()
    histograms: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def run_labels(self) -> dict[str, str]:
        """The run's labels, in their order."""
        return {name: self.run.get(name, "") for name in RUN_LABELS}


class Span(NamedTuple):
    """A traced request: its W3C ids, and its times in ns since the epoch."""

    trace_id: int
    span_id: int
    scheduled_ns: int
    sent_ns: int
    done_ns: int
    error: str | None


def traceparent(trace_id: int, span_id: int) -> str:
    """The W3C header of a sampled request (Trace Context, section 3.2)."""
    return f"00-{trace_id:032x}-{span_id:016x}-01"
