"""Failed requests of the measured interval."""

from collections.abc import Sequence

from servemark.figures.evidence import Evidence
from servemark.figures.figure import NONE_SENT, Figure, Part, summed
from servemark.figures.value import COUNT, SHARE, Value


def _share(failed: float, requests: float) -> Value:
    return Value(failed / requests, n=int(requests)) if requests else Value.unknown(NONE_SENT)


def _of(evidence: Evidence) -> Value:
    return _share(sum(evidence.errors.values()), evidence.scheduled)


def _join(_tag: str, parts: Sequence[Part]) -> Value:
    failed, answered = (sum(part.value(tag) or 0 for part in parts) for tag in ("errors.count", "requests.answered"))
    return _share(failed, failed + answered)


FIGURES = (
    Figure(
        "errors.count",
        COUNT,
        "Failed requests.",
        lambda evidence: Value(sum(evidence.errors.values())),
        better="lower",
        join=summed,
        live=True,
    ),
    Figure(
        "errors.share",
        SHARE,
        "Share of the requests that failed.",
        _of,
        better="lower",
        join=_join,
        live=True,
        short="errors",
    ),
)
