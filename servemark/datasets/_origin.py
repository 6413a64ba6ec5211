"""Origin of a data set, which its module declares as `ORIGIN`, and who confirms what it says."""

from dataclasses import dataclass

MAKER = "those who give the data"
CATALOGUE = "a catalogue of data sets"
"""TensorFlow Datasets' sizes with checksums, or a card of Hugging Face; for simple-examples.tgz a check of its size."""
COPY = "a copy in other projects"
"""Of the makers' text, or of a download's log. The makers' own pages were not at hand."""


@dataclass(frozen=True)
class Origin:
    """Place of the official files, their size packed (MB; None: not published), and the terms of use as published.

    `size_from` and `terms_from` say who confirms them; None: written down from memory and not confirmed by anybody.
    """

    place: str
    megabytes: float | None
    terms: str
    size_from: str | None = None
    terms_from: str | None = None
