"""Data sets in their official layouts: readers for requests from real data, and fetching where that can be done.

A module of this package is a data set when it has `KEY`, its folder's name under DATA_ROOT, and `ORIGIN`, who has the
official files. `fetch(root)` is optional.
"""

from pathlib import Path
from types import ModuleType

from servemark.errors import OptionError
from servemark.plugins import modules_of


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
