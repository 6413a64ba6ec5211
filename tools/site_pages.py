"""The pages that only the site has: `make docs` writes them from types, catalogs and the registry of workloads.

A reader of the repository has `servemark schema`, `servemark list figures` and the docstrings in servemark/models/.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from servemark.paths import CHECKOUT
from tools import metrics_reference, model_cards, result_reference

FOLDER = CHECKOUT / "docs" / "reference" / "made"
PAGES: Mapping[str, Callable[[], str]] = {
    "result": result_reference.reference,
    "metrics": metrics_reference.reference,
    "cards": model_cards.cards,
}


def write(folder: Path = FOLDER) -> None:
    """Write each page that is not there or not current, so that a second build reads only what changed."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        file, text = folder / f"{name}.md", page()
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
