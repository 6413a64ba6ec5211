"""Series of the machines' meters during a run, `series.json`: columns of values over time."""

from typing import Annotated, Literal, TypedDict


class SeriesColumn(TypedDict):
    """One figure over time."""

    name: Annotated[
        str,
        "Name, with its unit. This machine's are the Prometheus metrics without `servemark_`; Triton's are its own.",
    ]
    unit: Annotated[str, "Unit: ratio, bytes, watts, joules, celsius, hertz; of Triton's metrics as their names say."]
    labels: Annotated[dict[str, str], "Which one of several: gpu, reason, boundary, source; Triton's own."]
    counter: Annotated[bool, "Whether it only grows. A point is then the last reading, not their mean."]
    values: Annotated[list[float | None], "A value for each time. Null: it could not be read."]
    reason: Annotated[str | None, "Why values are null; where there were several reasons, the last."]


class Recorded(TypedDict):
    """Figures over the same time."""

    time_s: Annotated[list[float], "Time of each point: of its last reading, from the start (s)."]
    columns: Annotated[list[SeriesColumn], "The figures. Each has as many values as there are times."]


class SeriesOf(Recorded):
    """Readings of one thread."""

    source: Annotated[str, "machine: its meters; triton: the server's own metrics; else a name given to --scrape."]
    period_s: Annotated[float, "Seconds between two readings."]
    readings_per_point: Annotated[int, "Readings of a point. Beyond 6,000 points neighbours are joined: 2, 4, 8, ..."]
    readings: Annotated[int, "How often it read."]
    skipped: Annotated[int, "Readings that were left out: the one before took too long, or 2 % of a core."]
    cpu_s: Annotated[float, "CPU time of the thread (s)."]
    longest_ms: Annotated[float, "Longest reading (ms)."]
    absent: Annotated[dict[str, str], "What could not be read at all -> why."]


class MachineSeries(TypedDict):
    """Readings of the machines during a run. Times are the monotonic clock's, from the start of the reading."""

    schema_version: Annotated[Literal[4, 5], "As in `result.json`."]
    kind: Annotated[Literal["machine_series"], "What the document is about."]
    start_epoch_s: Annotated[float, "When the reading began, as seconds since 1970 (UTC) by the wall clock."]
    measured_from_s: Annotated[float, "Start of the measured interval, from the start (s)."]
    measured_until_s: Annotated[float, "Its end (s)."]
    series: Annotated[list[SeriesOf], "What each thread read."]
