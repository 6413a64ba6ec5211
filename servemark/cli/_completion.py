"""Completion in the user's shell: its script, shown or installed."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from servemark.errors import OptionError

PLACES = {
    "bash": (".bash_completions/servemark.sh", ".bashrc", "source '{}'"),
    "zsh": (".zfunc/_servemark", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/servemark.fish", "", ""),
}
"""Shell -> the script's file in the home folder, and the file with the line that reads it, where one is needed."""


def options() -> list[click.Option]:
    """Return the options of the command group."""
    words = {
        "--install-completion": (_install, "Install completion for the current shell."),
        "--show-completion": (
            _show,
            "Show completion for the current shell, to copy it or customize the installation.",
        ),
    }
    return [
        click.Option([name], is_flag=True, is_eager=True, expose_value=False, callback=callback, help=help_)
        for name, (callback, help_) in words.items()
    ]


def _script() -> tuple[str, str]:
    """Return the current shell, and its script. Raises OptionError."""
    shell = Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(shell)
    if kind is None or shell not in PLACES:
        fix = f"SHELL=bash servemark --show-completion; there are {', '.join(PLACES)}"
        raise OptionError(f"there is no completion for the shell {shell!r}", fix=fix)
    return shell, kind(click.Group(), {}, "servemark", "_SERVEMARK_COMPLETE").source()


def _show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(_script()[1])
        context.exit()


def _install(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    shell, script = _script()
    place, start, line = PLACES[shell]
    file = Path.home() / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script)
    if start:
        beginning = Path.home() / start
        text = beginning.read_text() if beginning.is_file() else ""
        if line.format(file) not in text:
            beginning.write_text(f"{text}\n{line.format(file)}\n")
    click.echo(f"{shell} completion installed in {file}\nCompletion will take effect once you restart the terminal")
    context.exit()
