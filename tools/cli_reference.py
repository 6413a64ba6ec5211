"""The command-line reference from each command's help: `python -m tools.cli_reference > docs/reference/cli.md`."""

import argparse
import functools
import re
import sys
import textwrap
from collections.abc import Collection, Iterator
from typing import Any

from servemark.cli import build
from servemark.documents.flags import MOST_USED, SECTIONS, locust_arguments

_HEAD = """# Command line

`python -m tools.cli_reference` writes this page from `--help`, and a test checks that it is current. An option that
`servemark run` explains in the same words stands below other commands by its name; their `--help` explains it too.

Exit codes: 0 valid; 1 Locust's own (a bad command line or configuration); 2 invalid or undecided; 3 bad option or
input; 4 the SLO was missed; 5 `compare` or `history` found a regression; 99 internal error; 130 a signal ended
the command.
"""
_LOCUSTFILES = """## locust -f loadgen/TASK.py

Locust's own `--help` does not read the locustfile, so it shows Locust's options only; `python -m loadgen --help` shows
all. A locustfile adds these, here for `ranking.py`:
"""
_WIDTH = 110
_INDENT: dict[str, Any] = {"initial_indent": "  ", "subsequent_indent": "    ", "break_on_hyphens": False}


def reference() -> str:
    """The whole page."""
    group = build()
    parts = [_HEAD]
    # Help is laid out for this width, whatever the terminal's.
    settings: dict[str, Any] = {"max_content_width": _WIDTH, "terminal_width": _WIDTH, "resilient_parsing": True}
    top = group.make_context("servemark", [], **settings)
    helps = {
        path: found.get_help(found.make_context(path, [], parent=top, **settings)).rstrip()
        for name, command in group.commands.items()
        for path, found in _with_parts(name, command)
    }
    of_run = {" ".join(entry.split()): _name(entry) for entry in _entries(helps["run"])}
    for path, text in helps.items():
        same = {of_run.get(" ".join(entry.split()), "") for entry in _entries(text)}
        parts.append(f"## servemark {path}\n\n```text\n{_without(text, same if path != 'run' else set())}\n```\n")
    return "\n".join([*parts, _LOCUSTFILES, f"```text\n{_without(_locustfiles(), {*of_run.values()})}\n```\n"])


def _entries(text: str) -> list[str]:
    """Return each option of a help with its words, or a line of anything else."""
    return re.findall(r"^  -.*\n?(?:^ {6,}.*\n?)*|^.*\n?", text, re.MULTILINE)


def _name(entry: str) -> str:
    """Return the long name of an option; "" of another line."""
    found = re.match(r"  (?:-\w, )?(--[\w-]+)", entry)
    return found[1] if found else ""


def _without(text: str, known: Collection[str]) -> str:
    """Return a help in which each section names its known options after the others."""
    parts: list[str] = []
    names: list[str] = []
    for entry in [*_entries(text), ""]:
        if (name := _name(entry)) and name in known:
            names.append(name)
            continue
        if not name and names:
            parts.append(textwrap.fill(f"As for run: {', '.join(names)}", _WIDTH, **_INDENT) + "\n")
            names = []
        parts.append(entry)
    return "".join(parts).rstrip()


def _with_parts(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Return a command, and each of its own where it has some."""
    yield name, command
    for part, found in getattr(command, "commands", {}).items():
        yield f"{name} {part}", found


def _locustfiles() -> str:
    """The options of a locustfile, section by section."""
    formatter = functools.partial(argparse.HelpFormatter, width=_WIDTH)
    parser = argparse.ArgumentParser(
        usage="locust -f loadgen/ranking.py [OPTIONS]", formatter_class=formatter, add_help=False
    )
    sections = {title: parser.add_argument_group(title) for title in (MOST_USED, *SECTIONS.values())}
    for option, settings in locust_arguments(["ranking"]):
        settings.pop("include_in_web_ui", None)  # which Locust's parser alone knows
        sections[option.section].add_argument(option.spelled, **settings)
    return parser.format_help()


if __name__ == "__main__":
    sys.stdout.write(reference())
