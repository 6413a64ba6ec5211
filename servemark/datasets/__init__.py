"""Data sets in their official layouts: readers for requests from real data, and fetching where that can be done.

A module of this package is a data set when it has `KEY`, its folder's name under DATA_ROOT, and `ORIGIN`, who has the
official files and who confirms what it says. `fetch(root)` is optional.
"""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from servemark.errors import OptionError
from servemark.plugins import modules_of

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


def readers() -> dict[str, ModuleType]:
    """The modules of all data sets by key, in order of the modules' names."""
    return {module.KEY: module for module in modules_of(__name__).values() if hasattr(module, "KEY")}


def available() -> list[str]:
    """Keys of the data sets that `fetch` can get; the others have to be brought by their licence holders."""
    return sorted(key for key, module in readers().items() if hasattr(module, "fetch"))


def fetch(key: str, root: Path) -> Path:
    """Get a data set into `root`/`key` in its official layout and return that folder; keeps what is there and valid.

    Raises OptionError for a key that cannot be fetched and InputDataError where no source can be reached.
    """
    if key not in available():
        raise OptionError(
            f"the data set {key!r} cannot be fetched",
            fix=f"`servemark data` knows {', '.join(available())}; lay any other out under {root / key} yourself",
        )
    folder: Path = readers()[key].fetch(root)
    return folder
