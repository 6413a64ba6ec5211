"""PromQL over the metrics of a run.

A Prometheus that ingests native histograms keeps no classic buckets of them, and one that does not has the buckets
alone. So each question about a histogram is asked of the native one first, and of the buckets where there is none.
"""

from collections.abc import Callable

Summed = Callable[[str, tuple[str, ...]], str]
RUN_LABELS = ("workload", "engine", "precision", "device", "scenario", "run")
"""Every sample of the generator has them."""
CHOSEN = 'workload=~"$workload", engine=~"$engine", device=~"$device", run=~"$run"'
RATE = "$__rate_interval"
RANGE = "$__range"
LATENCY = "servemark_request_latency_seconds"
SERVICE_TIME = "servemark_request_service_time_seconds"
DELAY = "servemark_schedule_delay_seconds"
REQUESTS = "servemark_requests_total"
OK, FAILED = 'outcome="ok"', 'outcome="failed"'


def of(metric: str, *more: str, chosen: str = CHOSEN) -> str:
    """Select a metric's series of the chosen runs; `more` are further matchers."""
    return f"{metric}{{{', '.join([chosen, *more])}}}"


def rate(metric: str, *more: str, by: tuple[str, ...] = ()) -> str:
    """Events a second."""
    return f"sum{_by(by)} (rate({of(metric, *more)}[{RATE}]))"


def now(metric: str, *more: str, by: tuple[str, ...] = ()) -> str:
    """Read a gauge, or the sum of several."""
    return f"sum{_by(by)} ({of(metric, *more)})"


def highest(metric: str, *more: str, by: tuple[str, ...] = ()) -> str:
    """Read the highest of several gauges."""
    return f"max{_by(by)} ({of(metric, *more)})"


def total(metric: str, *more: str, by: tuple[str, ...] = (), chosen: str = CHOSEN) -> str:
    """Query the increase of counters in the time shown.

    A run is a process of its own and counts from 0. So this is all of each run, the end of those that are over too.
    """
    return f"sum{_by(by)} (last_over_time({of(metric, *more, chosen=chosen)}[{RANGE}]))"


def latest(aggregate: str, metric: str, by: tuple[str, ...]) -> str:
    """Read the last value of a gauge in the time shown, also of a run that is over; `aggregate` as in max, avg."""
    return f"{aggregate}{_by(by)} (last_over_time({of(metric)}[{RANGE}]))"


def quantile(share: float, metric: str, by: tuple[str, ...] = ()) -> str:
    """Quantile of a histogram (seconds) over the last moments."""
    return _quantile(share, lambda name, labels: rate(name, by=labels), metric, by)


def total_quantile(share: float, metric: str, by: tuple[str, ...] = (), chosen: str = CHOSEN) -> str:
    """Quantile of a histogram (seconds) over all of each run; that is the result's, as it stands.

    Prometheus 2 has no last_over_time of native histograms: it has their newest values, until a run is over.
    """
    newest = f"histogram_quantile({share:g}, sum{_by(by)} ({of(metric, chosen=chosen)}))"
    return f"{_quantile(share, lambda name, labels: total(name, by=labels, chosen=chosen), metric, by)} or {newest}"


def cells(metric: str) -> str:
    """Return a histogram over time, for a heatmap: requests of each bucket and moment."""
    native = f"sum (increase({of(metric)}[{RATE}]))"
    return f"{native} or on () sum by (le) (increase({of(f'{metric}_bucket')}[{RATE}]))"


def _quantile(share: float, summed: Summed, metric: str, by: tuple[str, ...]) -> str:
    native = f"histogram_quantile({share:g}, {summed(metric, by)})"
    return f"{native} or histogram_quantile({share:g}, {summed(f'{metric}_bucket', ('le', *by))})"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
