"""The command-line reference from each command's help: `python -m tools.cli_reference > docs/reference/cli.md`."""

import argparse
import functools
import sys
from collections.abc import Iterator
from typing import Any

from servemark.cli import build
from servemark.documents.flags import MOST_USED, SECTIONS, locust_arguments

_HEAD = """# Command line

`python -m tools.cli_reference` writes this page from `--help`, and a test checks that it is current.

Exit codes: 0 valid; 1 Locust's own (a bad command line or configuration); 2 invalid or undecided; 3 bad option or
input; 4 the SLO was missed; 5 `compare` or `history` found a regression; 99 internal error; 130 a signal ended
the command.
"""
_LOCUSTFILES = """## locust -f loadgen/TASK.py

Locust's own `--help` does not read the locustfile, so it shows Locust's options only; `python -m loadgen --help` shows
all. A locustfile adds these, here for `ranking.py`:
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
        for path, found in _with_parts(name, command):
            context = found.make_context(path, [], parent=top, **settings)
            parts.append(f"## servemark {path}\n\n```text\n{found.get_help(context).rstrip()}\n```\n")
    return "\n".join([*parts, _locustfiles()])


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
    return f"{_LOCUSTFILES}\n```text\n{parser.format_help().rstrip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
