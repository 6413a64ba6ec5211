"""Origin of a data set, which its module declares as `ORIGIN`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """Place of the official files, their size packed (MB; None: not published), and the terms of use as published."""

    place: str
    megabytes: float | None
    terms: str
