"""Rendering of a document on a terminal."""

import io
from typing import Any

from rich.console import Console

from servemark.views.render.terminal import show


def shown(document: Any) -> str:
    """The text on a terminal of 160 columns, without its colours."""
    console = Console(width=160, record=True, file=io.StringIO(), markup=False, emoji=False)
    show(document, console)
    return console.export_text()
