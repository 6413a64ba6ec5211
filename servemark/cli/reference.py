"""Writes docs/cli.md from the commands' own help: `python -m servemark.cli.reference > docs/cli.md`."""

from typing import Any

import typer

from servemark.cli import build

_HEAD = """# Command line

Generated from `--help` by `python -m servemark.cli.reference`; a test checks that it is current.

Exit codes: 0 valid; 1 Locust's own (a bad command line or configuration); 2 invalid or unstable; 3 bad option or input;
4 the SLO was missed; 5 `compare` found a regression; 99 internal error.
"""
_WIDTH = 110


def reference() -> str:
    """The whole page."""
    group = build()
    parts = [_HEAD]
    # Help is laid out for this width, whatever the terminal's.
    settings: dict[str, Any] = {"max_content_width": _WIDTH, "terminal_width": _WIDTH, "resilient_parsing": True}
    top = group.make_context("servemark", [], **settings)
    for name, command in group.commands.items():
        context = command.make_context(name, [], parent=top, **settings)
        parts.append(f"## servemark {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
