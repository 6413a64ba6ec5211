"""Servers and connections of a run: what each of several servers took, and the parts of a new connection."""

from servemark.results.schema.run import Result
from servemark.stats.histogram import Latency
from servemark.views.blocks import Table
from servemark.views.wording import cells


def servers(result: Result) -> list[Table]:
    """A row for each of several servers; none where one took all requests."""
    head = ["server", "requests", "failed", "p50 ms", "p99 ms", "failures"]
    rows = [
        [
            *(each["url"], f"{each['requests']:,}", f"{each['errors']:,}", *cells(each["latency_ms"], ("p50", "p99"))),
            ", ".join(f"{kind} {count:,}" for kind, count in each["errors_by_kind"].items()),
        ]
        for each in result["metrics"].get("servers") or []
    ]
    return [Table(head, rows)] if rows else []


def parts(result: Result) -> list[tuple[str, Latency]]:
    """The parts of a request that has a connection of its own, in their order; none where connections were kept."""
    found = result["metrics"].get("connections")
    if not found:
        return []
    tls = [("TLS handshake", found["tls_ms"])] if found["tls_ms"] else []
    return [
        ("connect", found["connect_ms"]),
        *tls,
        ("first byte", found["first_byte_ms"]),
        ("receive", found["receive_ms"]),
    ]


def sizes(result: Result) -> list[str]:
    """Say what compression did to requests and answers; nothing where none was asked for."""
    found = result["metrics"].get("compression")
    if not found:
        return []
    words = [
        f"{what} {before:,.0f} to {after:,.0f} bytes ({after / before:.0%})"
        for what, before, after in (
            ("requests", found["request_bytes"], found["request_sent_bytes"]),
            ("answers", found["answer_bytes"], found["answer_received_bytes"]),
        )
        if before and after
    ]
    if result["request"]["server"]["response_compression"] != "none" and not found["compressed_answers"]:
        words.append("no answer came compressed")
    return [f"compression: {', '.join(words)}"]


def cancelled(result: Result) -> list[str]:
    """Say what became of the requests that were to be given up; nothing where none were."""
    found, given = result["metrics"].get("cancellation"), result["request"]["limits"].get("request_cancellation")
    if not found or not given:
        return []
    failed = f", {sum(found['failed'].values()):,} failed" if found["failed"] else ""
    return [
        f"cancelled: {found['cancelled']:,} of {found['requests']:,} requests that were to be given up after "
        f"{given[1]:g} s; {found['answered']:,} were answered before{failed}; they count in no other figure"
    ]
