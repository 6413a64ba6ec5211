"""Servers and connections of a run: what each of several servers took, and the parts of a new connection."""

from servemark.figures.registry import count_of, value_of
from servemark.results.schema.run import Result
from servemark.views.blocks import Table
from servemark.views.wording import values


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
