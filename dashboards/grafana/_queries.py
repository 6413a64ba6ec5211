"""PromQL over the metrics of a run."""

CHOSEN = 'workload=~"$workload", engine=~"$engine", device=~"$device", run=~"$run"'
RATE = "$__rate_interval"
RANGE = "$__range"
LATENCY = "servemark_request_latency_seconds"
SERVICE_TIME = "servemark_request_service_time_seconds"
DELAY = "servemark_schedule_delay_seconds"
REQUESTS = "servemark_requests_total"
JOULES = "servemark_energy_joules_total"
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
    return f"histogram_quantile({share:g}, {rate(f'{metric}_bucket', by=('le', *by))})"


def total_quantile(share: float, metric: str, by: tuple[str, ...] = (), chosen: str = CHOSEN) -> str:
    """Quantile of a histogram (seconds) over all of each run; that is the result's, as it stands."""
    return f"histogram_quantile({share:g}, {total(f'{metric}_bucket', by=('le', *by), chosen=chosen)})"


def cells(metric: str) -> str:
    """Return a histogram over time, for a heatmap: requests of each bucket and moment."""
    return f"sum by (le) (increase({of(f'{metric}_bucket')}[{RATE}]))"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
