"""A run's options in a YAML file: read with the line of each, checked against the command's own, and written."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from servemark import files
from servemark.cli._options import MayStandBare
from servemark.cli._ranges import LOADS
from servemark.cli._trust import is_own, require_trust
from servemark.errors import InputDataError, OptionError, ServemarkError, parsing

Value = str | bool | list[str]
_META = "servemark.run_file"
_NOT_OPTIONS = {"help", "config_file", "trust"}
_BOOLEAN, _NOTHING = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"


@dataclass(frozen=True)
class RunFile:
    """The options of a file as they are spelled there, and the lines in which they stand."""

    path: Path
    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, known: Mapping[str, Any]) -> "RunFile":
        """Read `key: value` lines, whose keys are names of the `known` parameters. Raises OptionError."""
        file = cls(path)
        try:
            with parsing(path, OptionError, fix="--config names a YAML file with lines like `request-rate: 100`"):
                tree = yaml.compose(files.text(path, files.TEXT_BYTES), Loader=yaml.SafeLoader)
        except OptionError as error:
            mark = getattr(error.__cause__, "problem_mark", None)
            if mark is None:
                raise
            what = getattr(error.__cause__, "problem", None) or "no YAML"
            raise OptionError(f"{path}:{mark.line + 1}: {what}", fix="write lines like `request-rate: 100`") from error
        if not isinstance(tree, yaml.MappingNode):
            raise OptionError(f"{path} holds no options", fix="write lines like `request-rate: 100`")
        for key, value in tree.value:
            file._take(key, value, known)
        return file

    def _take(self, key: Any, value: Any, known: Mapping[str, Any]) -> None:
        """Take one line. Raises OptionError."""
        line = key.start_mark.line + 1
        spelled = str(key.value) if isinstance(key, yaml.ScalarNode) else "a key that is no word"
        if spelled not in known:
            near = get_close_matches(spelled.replace("_", "-"), known, n=1)
            fix = f"did you mean {near[0]}?" if near else "servemark run --help lists them"
            raise OptionError(f"{self.path}:{line}: {spelled!r} is no option of a run", fix=fix)
        if spelled in self.lines:
            raise OptionError(
                f"{self.path}:{line}: {spelled} stands in line {self.lines[spelled]} already", fix="leave one out"
            )
        self.lines[spelled] = line
        self.values[spelled] = self._value(spelled, value, known[spelled])

    def _value(self, key: str, node: Any, parameter: Any) -> Value:
        """The text as it stands, which is read as the command line's would be. Raises OptionError."""
        where = f"{self.path}:{node.start_mark.line + 1}: {key}"
        many = is_repeatable(parameter)
        if many and isinstance(node, yaml.SequenceNode):
            return [self._text(f"{where}[{number}]", each) for number, each in enumerate(node.value)]
        text = self._text(where, node)
        if many:
            return [text]
        if not is_switch(parameter):
            return text
        if node.tag != _BOOLEAN:
            raise OptionError(f"{where}: {text!r} is neither true nor false", fix=f"write it like `{key}: true`")
        return bool(yaml.SafeLoader.bool_values[text.lower()])

    @staticmethod
    def _text(where: str, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise OptionError(f"{where} is no single value", fix="write one value behind the colon")
        if node.tag == _NOTHING or not node.value:
            raise OptionError(f"{where} has no value", fix="give it one, or leave the line out")
        if not is_text(node.value):
            raise OptionError(f"{where} holds what no command line can", fix="write plain text")
        return str(node.value)

    def place_of(self, words: str, keys: Collection[str]) -> str | None:
        """Where the first of these options stands that an error speaks of, like `run.yaml:3`."""
        for key, line in self.lines.items():
            spelled = rf"(?<![\w-])--{re.escape(key)}(?![\w-])"
            if key in keys and (re.search(spelled, words) or (key == "workload" and repr(self.values[key]) in words)):
                return f"{self.path}:{line}"
        return None


def parameters(command: Any) -> dict[str, Any]:
    """The options and arguments of a command that a file may hold, as they are spelled, without dashes before them."""
    return {
        max(each.opts, key=len).lstrip("-").replace("_", "-"): each
        for each in command.params
        if each.name not in _NOT_OPTIONS
    }


def defaults(options: Mapping[str, Value], known: Mapping[str, Any]) -> dict[str, Value]:
    """Options as the defaults of the command with the `known` parameters."""
    return {
        known[key].name: [value] if is_repeatable(known[key]) and isinstance(value, str) else value
        for key, value in options.items()
    }


def is_switch(parameter: Any) -> bool:
    """Whether it is on or off; an argument has no such attribute."""
    return bool(getattr(parameter, "is_flag", False))


def is_text(value: str) -> bool:
    """Whether a command line can hold it: no NUL, no half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def is_repeatable(parameter: Any) -> bool:
    """Whether it may come again."""
    return bool(getattr(parameter, "multiple", False))


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options of a file the command's defaults, before its other options are read."""
    if path is not None:
        known = parameters(context.command)
        file = RunFile.read(path, known)
        context.default_map = dict(defaults(file.values, known))
        context.obj = None if is_own(path) else path
        context.meta[_META] = file
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_read,
        help="Options from a YAML file, like request-rate: 100. Those of the command line come before it.",
    ),
]


class TakesDefaults(MayStandBare):
    """A command whose options may come from a file, or from an earlier run: errors say in which line.

    A load of the command line takes the place of another kind of load there.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, with the file's options behind it."""
        with _placed(ctx):
            rest = super().parse_args(ctx, args)
        if any(_typed(ctx, name) for name in LOADS):
            for parameter in self.params:
                if parameter.name in LOADS and not _typed(ctx, parameter.name):
                    ctx.params[parameter.name] = parameter.default
        require_trust(ctx)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _placed(ctx):
            return super().invoke(ctx)


def _typed(context: Any, name: str) -> bool:
    """Whether it is from the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@contextmanager
def _placed(context: Any) -> Iterator[None]:
    """Say of an error that is about the file's option where this stands. Raises OptionError in its place."""
    try:
        yield
    except (OptionError, InputDataError, typer.TyperException) as error:
        words = error.what if isinstance(error, ServemarkError) else error.format_message()
        file: RunFile | None = context.meta.get(_META)
        known = parameters(context.command)
        keys = [key for key in (file.lines if file else ()) if not _typed(context, known[key].name)]
        place = file.place_of(words, keys) if file else None
        if place is None:
            raise
        raise OptionError(f"{place}: {words}", fix=getattr(error, "fix", None)) from error


def written(options: Mapping[str, Value]) -> str:
    """Options as the lines of a file, which is read as the same ones."""
    lines = []
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        texts = [str(each).lower() if isinstance(each, bool) else scalar(str(each)) for each in values]
        shown = f"[{', '.join(texts)}]" if isinstance(value, list) else texts[0]
        lines.append(f"{name.replace('_', '-')}: {shown}")
    return "".join(f"{line}\n" for line in lines)


def scalar(text: str) -> str:
    """A text as YAML: plain where it is read back as it is, else in quotes."""
    if re.fullmatch(r"[\w./]([\w./:%@+=-]*[\w./%@+=-])?", text):  # nothing here has a meaning in a list
        node = yaml.compose(f"key: {text}", Loader=yaml.SafeLoader).value[0][1]
        if isinstance(node, yaml.ScalarNode) and node.value == text and node.tag != _NOTHING:
            return text
    return str(yaml.safe_dump(text, default_style='"', width=1 << 20)).strip()
