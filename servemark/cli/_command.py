"""A command as its group imports it."""

from collections.abc import Callable
from typing import Any

import typer


def one_command(function: Callable[..., Any], **settings: Any) -> typer.Typer:
    """An application of one command, with typer's settings of a command."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(**settings)(function)
    return app
