"""The site's page of the metrics, made from their catalog; `python -m tools.metrics_reference` prints it."""

from servemark.telemetry.metrics.catalog import HIGHEST_S, LOWEST_DELAY_S, LOWEST_S, RUN_LABELS, by_name
from servemark.telemetry.metrics.exposition import bounds_s

_HEAD = """# Metrics of a run

What `--metrics-port` exposes while a run goes on ([how to watch it](../../guides/watching.md)). This page is made from
`servemark/telemetry/metrics/catalog.py`.

Each [figure of a result](result.md#figures) is a gauge in Prometheus's base units, unless it is of a histogram. Those
of throughput, errors and late requests are computed about once a second. The others come with the result, at the end.
A figure that is not known is absent.

Every sample has the labels {labels}. A label that is not known is empty. `run` is the
result's directory, from `--out`. Counters and histograms count the requests of the measured interval, as the result
does.

Each histogram has {buckets} buckets, from {low:g} ms to {high:g} s. For the schedule delay they begin at {delay:g} ms.
A p99 that is read from them differs from the result's by at most 10 %.

Triton's own metrics have its own names (`nv_inference_*`), at Triton's port.

| metric | type | own labels | meaning |
|---|---|---|---|
"""


def reference() -> str:
    """The page."""
    head = _HEAD.format(
        labels=", ".join(f"`{label}`" for label in RUN_LABELS),
        buckets=len(bounds_s(LOWEST_S)) + 1,
        low=LOWEST_S * 1e3,
        high=HIGHEST_S,
        delay=LOWEST_DELAY_S * 1e3,
    )
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"
        for each in by_name().values()
    ]
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
