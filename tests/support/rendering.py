"""Rendering of a document on a terminal."""

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console


def shown(render: Callable[[Any, Console], None], document: Any) -> str:
    """The text on a terminal of 160 columns, without its colours."""
    console = Console(width=160, record=True, file=io.StringIO(), markup=False, emoji=False)
    render(document, console)
    return console.export_text()
