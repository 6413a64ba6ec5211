"""Data sets in their official layouts: readers for requests from real data, and fetching where that can be done."""

from collections.abc import Callable, Mapping
from pathlib import Path

from servemark.datasets import ml_100k, mnist
from servemark.errors import OptionError

_FETCH: Mapping[str, Callable[[Path], Path]] = {ml_100k.KEY: ml_100k.fetch, mnist.KEY: mnist.fetch}


def available() -> list[str]:
    """Keys of the data sets that `fetch` can get; the others have to be brought by their licence holders."""
    return sorted(_FETCH)


def fetch(key: str, root: Path) -> Path:
    """Get a data set into `root`/`key` in its official layout and return that folder; keeps what is there and valid.

    Raises OptionError for a key that cannot be fetched and InputDataError where no source can be reached.
    """
    if key not in _FETCH:
        raise OptionError(
            f"the data set {key!r} cannot be fetched",
            fix=f"`servemark data` knows {', '.join(available())}; lay any other out under {root / key} yourself",
        )
    return _FETCH[key](root)
