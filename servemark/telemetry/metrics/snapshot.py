"""State of a run at one moment, by the catalog's names, with its traced requests; another process reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.catalog import RUN_LABELS, Kind, Metric, by_name


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

    def pack(self) -> tuple[Any, ...]:
        """All of it as plain values, without the empty slots of its histograms."""
        histograms = {name: histogram.pack() for name, histogram in self.histograms.items()}
        return self.run_labels, [tuple(sample) for sample in self.samples], histograms

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Self:
        """Rebuild a snapshot from `pack`'s output."""
        run, samples, histograms = packed
        known = [Sample(*sample) for sample in samples if sample[0] in by_name()]
        return cls(run, known, {name: Histogram.unpack(each) for name, each in histograms.items()})


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
