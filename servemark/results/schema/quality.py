"""The result of `servemark quality`: how right the answers to a labelled data set are."""

from typing import Annotated, Literal, NotRequired, TypedDict

from servemark.results.schema.details import QualityScore
from servemark.results.schema.header import KIND
from servemark.results.schema.run import OneRun, Resolved


class QualityResolved(Resolved):
    """Values that the request left open, as they were resolved."""

    samples: Annotated[int | None, "Size of the subset that was asked for. Null: all examples."]
    own_server: NotRequired[Annotated[bool, "Whether the server was started for this run, at a port of its own."]]


class QualityErrors(TypedDict):
    """Failed requests."""

    count: Annotated[int, "Failed requests."]
    by_kind: Annotated[dict[str, int], "Kind of failure -> count."]
    messages: Annotated[dict[str, str], "Kind of failure -> the server's first message."]


class QualityResult(OneRun):
    """The result of a quality run."""

    kind: Annotated[Literal["quality"], KIND]
    resolved: Annotated[QualityResolved, "What the request left open, as it was resolved."]
    precision: Annotated[str, "Precision that was asked for."]
    artifact_sha256: Annotated[str | None, "Digest of the model file. Null: it is not in the repository."]
    quality: Annotated[QualityScore | None, "What was found. Null: no example was scored."]
    errors: Annotated[QualityErrors, "Failed requests of the session that ended the run."]
    seconds: Annotated[float, "How long the requests of this run took (s)."]
    partial: Annotated[bool, "true: the run was cut short; the same command continues it."]
