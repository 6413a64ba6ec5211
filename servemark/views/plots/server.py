"""Parts of a request's time in the server, and the sizes of the executed batches."""

from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Metrics
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import Bar, Plot, bars
from servemark.views.page.blocks import Figure, Table
from servemark.views.wording import figure

_PARTS = {
    "queue": "queue_ms",
    "prepare inputs": "compute_input_ms",
    "run the model": "compute_infer_ms",
    "prepare outputs": "compute_output_ms",
}
_OUTSIDE = "network, protocol, generator"


def breakdown(metrics: Metrics) -> Figure | None:
    """The mean times of a request in the server, and what is left of the service time; None without statistics."""
    server, service = metrics["server"], metrics["service_time_ms"]["mean"]
    parts = {name: figure_of(server, key) for name, key in _PARTS.items()}
    known = [value for value in parts.values() if value is not None]
    if len(known) < len(parts):
        return None
    if service is not None:
        parts[_OUTSIDE] = max(service - sum(known), 0.0)
    whole = sum(value or 0.0 for value in parts.values())
    rows = [
        Bar(name, f"{figure(value)} ms", value, colour=number) for number, (name, value) in enumerate(parts.items())
    ]
    axis = linear("ms, mean of a request", list(parts.values()))
    shares = [[name, figure(value), f"{(value or 0.0) / whole:.1%}" if whole else "-"] for name, value in parts.items()]
    return Figure(
        "Where the service time went",
        bars("Mean time of a request by part", axis, rows),
        Table(["part", "ms", "share"], [*shares, ["service time", figure(service), ""]]),
    )


def batches(metrics: Metrics) -> Figure | None:
    """Plot the number of executed batches by size; None if the server does not report it."""
    sizes = {int(size): count for size, count in (metrics["server"]["batch_sizes"] or {}).items()}
    if len(sizes) < 2:
        return None
    whole = sum(sizes.values())
    plot = Plot("Executed batches by size", logarithmic("samples", sizes), linear("batches", sizes.values()))
    plot.stems([(float(size), float(count)) for size, count in sorted(sizes.items())], "executed batches", 2)
    rows = [[f"{size}", f"{count:,}", f"{count / whole:.1%}"] for size, count in sorted(sizes.items())]
    return Figure.of(plot, "Executed batches by size", Table(["samples", "batches", "share"], rows))
