"""Parts of a request's time in the server, and the sizes of the executed batches."""

from servemark.figures.registry import value_of
from servemark.quantities import figure
from servemark.results.schema.run import Result
from servemark.views.blocks import Figure, Table
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import Bar, Plot, ends

_PARTS = {
    "queue": "server.queue",
    "prepare inputs": "server.compute_input",
    "run the model": "server.compute_infer",
    "prepare outputs": "server.compute_output",
}
_OUTSIDE = "network, protocol, generator"


def breakdown(result: Result) -> list[Figure]:
    """The mean times of a request in the server, and what is left of the service time; none without statistics."""
    service = value_of(result, "service_time.mean")
    parts = {name: value_of(result, tag) for name, tag in _PARTS.items()}
    known = [value for value in parts.values() if value is not None]
    if len(known) < len(parts):
        return []
    if service is not None:
        parts[_OUTSIDE] = max(service - sum(known), 0.0)
    whole = sum(value or 0.0 for value in parts.values())
    drawn = [
        Bar(name, value, None, number, unit=" ms", said=f"{(value or 0.0) / whole:.1%}" if whole else "-")
        for number, (name, value) in enumerate(parts.items())
    ]
    axis, note = linear("ms, mean of a request", ends(drawn)), f"Mean service time: {figure(service)} ms."
    return [Figure.of_bars("Where the service time went", axis, drawn, ["part", "ms", "share"], note=note)]


def batches(result: Result) -> list[Figure]:
    """Plot the number of executed batches by size; none if the server does not report it."""
    sizes = {int(size): count for size, count in (result["details"]["server"]["batch_sizes"] or {}).items()}
    if len(sizes) < 2:
        return []
    whole = sum(sizes.values())
    plot = Plot("Executed batches by size", logarithmic("samples", sizes), linear("batches", sizes.values()))
    plot.stems([(float(size), float(count)) for size, count in sorted(sizes.items())], "executed batches", 2)
    rows = [[f"{size}", f"{count:,}", f"{count / whole:.1%}"] for size, count in sorted(sizes.items())]
    return [Figure.of(plot, "Executed batches by size", Table(["samples", "batches", "share"], rows))]
