"""A command as its group imports it, with its help by subject."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from servemark.documents.flags import MOST_USED, SECTIONS

OWN = "Options"
"""The section of options that are no part of a request."""


class HelpBySubject(TyperCommand):
    """A command whose help groups the options as a request is grouped, with those that most runs use first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options, section by section."""
        sections: dict[str, list[Any]] = {title: [] for title in ("Arguments", MOST_USED, OWN, *SECTIONS.values())}
        for parameter in self.get_params(ctx):
            if (words := parameter.get_help_record(ctx)) is not None:
                argument = parameter.param_type_name == "argument"
                panel = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or OWN
                sections[panel].append(words)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def one_command(function: Callable[..., Any], **settings: Any) -> typer.Typer:
    """An application of one command, with typer's settings of a command."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(**{"cls": HelpBySubject, **settings})(function)
    return app
