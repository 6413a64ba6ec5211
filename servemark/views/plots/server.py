"""Servers of a run: parts of a request's time, batches, each of several servers, compression and cancellation."""

from servemark.figures.registry import count_of, value_of
from servemark.quantities import figure
from servemark.results.schema.run import Result
from servemark.views.blocks import Figure, Table
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import Bar, Plot, ends
from servemark.views.wording import values

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


def servers(result: Result) -> list[Table]:
    """A row for each of several servers; none where one took all requests."""
    head = ["server", "requests", "failed", "p50 ms", "p99 ms", "failures"]
    rows = [
        [
            *(
                each["url"],
                f"{count_of(each, 'requests.answered') + count_of(each, 'errors.count'):,}",
                f"{count_of(each, 'errors.count'):,}",
            ),
            *values(each, ("latency.p50", "latency.p99")),
            ", ".join(f"{kind} {count:,}" for kind, count in each["errors_by_kind"].items()),
        ]
        for each in result["details"].get("servers", [])
    ]
    return [Table(head, rows)] if rows else []


def sizes(result: Result) -> list[str]:
    """Say what compression did to requests and answers; nothing where none was asked for."""
    if "compression.compressed_answers" not in result["figures"]:
        return []
    words = [
        f"{what} {before:,.0f} to {after:,.0f} bytes ({after / before:.0%})"
        for what, made, came in (
            ("requests", "compression.request_bytes", "compression.request_sent_bytes"),
            ("answers", "compression.answer_bytes", "compression.answer_received_bytes"),
        )
        if (before := value_of(result, made)) and (after := value_of(result, came))
    ]
    asked = result["request"]["server"]["response_compression"] != "none"
    if asked and not count_of(result, "compression.compressed_answers"):
        words.append("no answer came compressed")
    return [f"compression: {', '.join(words)}"]


def cancelled(result: Result) -> list[str]:
    """Say what became of the requests that were to be given up; nothing where none were."""
    found, given = result["details"].get("cancellation"), result["request"]["limits"].get("request_cancellation")
    if found is None or not given:
        return []
    failed = f", {sum(found['failed'].values()):,} failed" if found["failed"] else ""
    cancelled, requests, answered = (
        count_of(result, f"cancellation.{name}") for name in ("cancelled", "requests", "answered")
    )
    return [
        f"cancelled: {cancelled:,} of {requests:,} requests that were to be given up after "
        f"{given[1]:g} s; {answered:,} were answered before{failed}; they count in no other figure"
    ]
