"""A request as a YAML file: read with the line of each value, and written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import yaml

from servemark import files
from servemark.documents.flags import KINDS, OPTIONS, given_options, options_in
from servemark.documents.load import Stage
from servemark.documents.request import GROUPS, RunRequest
from servemark.errors import OptionError, parsing

EXAMPLE = "write groups of fields, like `load: {kind: constant-rate, rate: 100}`"
_BOOLEAN, _NOTHING = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"
LOADS: dict[str, type[msgspec.Struct]] = {str(kind.__struct_config__.tag): kind for kind in KINDS.values()}
"""Each kind of load by the name that a document has for it."""


@dataclass(frozen=True)
class RequestFile:
    """A request that a file holds, and the lines of the fields that it gives: `load.rate` -> 4."""

    path: Path
    request: RunRequest
    lines: Mapping[str, int]

    def place_of(self, words: str, typed: frozenset[str]) -> str | None:
        """The place of the field that an error speaks of, like `run.yaml:3`; not of a flag that was `typed`."""
        for where, line in self.lines.items():
            names = [o.name for o in OPTIONS.values() if where == ".".join(filter(None, (o.group, o.field)))]
            spelled = [name for name in names if name not in typed and OPTIONS[name].spelled in words.split()]
            if spelled or (where == "workload" and "model" not in typed and repr(self.request.workload) in words):
                return f"{self.path}:{line}"
        return None


def read_request(path: Path) -> RequestFile:
    """Read a file of a request. Raises OptionError with the line."""
    try:
        with parsing(path, OptionError, fix=EXAMPLE):
            root = yaml.compose(files.text(path, files.TEXT_BYTES), Loader=yaml.SafeLoader)
    except OptionError as error:
        if isinstance(error.__cause__, OSError):
            raise OptionError(error.what, fix="name a request's file; servemark init writes one") from error
        mark = getattr(error.__cause__, "problem_mark", None)
        if mark is None:
            raise
        what = getattr(error.__cause__, "problem", None) or "not YAML"
        raise OptionError(f"{path}:{mark.line + 1}: {what}", fix=EXAMPLE) from error
    if not isinstance(root, yaml.MappingNode):
        raise OptionError(f"{path} does not hold a request", fix=EXAMPLE)
    reader = _Reader(path)
    tree = reader.group(root, RunRequest, "")
    return RequestFile(path, reader.checked(tree, "", root), reader.lines)


@dataclass
class _Reader:
    """Reads the nodes of one file as the types of a request have them."""

    path: Path
    lines: dict[str, int] = field(default_factory=dict)

    def group(self, node: Any, kind: type[msgspec.Struct], where: str) -> dict[str, Any]:
        """Read a mapping of fields. Raises OptionError."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{where} is not a group of fields", EXAMPLE)
        found: dict[str, Any] = {}
        names = list(kind.__struct_fields__)
        for key, value in node.value:
            name = str(key.value)
            place = f"{where}.{name}" if where else name
            if place in self.lines:
                raise self.error(key, f"{place} stands in line {self.lines[place]} already", "leave one out")
            self.lines[place] = key.start_mark.line + 1
            if value.tag == _NOTHING and place in {*GROUPS, "load"}:
                continue
            if name == "kind" and where == "load":
                found[name] = str(value.value)
            elif name not in names:
                near = get_close_matches(name, names, n=1)
                fix = f"did you mean {near[0]}?" if near else f"one of: {', '.join(names)}"
                raise self.error(key, f"{place} is not a field of a request", fix)
            else:
                found[name] = self.value(value, kind, name, place)
        return found

    def value(self, node: Any, kind: type[msgspec.Struct], name: str, place: str) -> Any:
        """Read one field's value. Raises OptionError."""
        if place == "load" or place in GROUPS:
            group = self.kind_of(node) if place == "load" else GROUPS[place]
            return self.checked(self.group(node, group, place), place, node)
        if name == "stages" and isinstance(node, yaml.SequenceNode):
            return [self.group(each, Stage, f"{place}[{n}]") for n, each in enumerate(node.value)]
        if not isinstance(node, yaml.ScalarNode):
            try:
                return yaml.SafeLoader("").construct_document(node)
            except (yaml.YAMLError, ValueError, RecursionError) as error:
                said = getattr(error, "problem", None) or error
                raise self.error(node, f"{place} cannot be read: {said}", EXAMPLE) from error
        option = next((each for each in options_in(kind, "load").values() if each.field == name), None)
        if node.tag == _NOTHING or option is None or option.switch:
            known = {_NOTHING: None, _BOOLEAN: yaml.SafeLoader.bool_values.get(node.value.lower())}
            return known.get(node.tag, node.value)
        try:
            return msgspec.to_builtins(option.read(str(node.value), place))
        except OptionError as error:
            raise self.error(node, error.what, error.fix) from error

    def kind_of(self, node: Any) -> type[msgspec.Struct]:
        """Find the kind of load that a group says it is. Raises OptionError."""
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        named = next((str(value.value) for key, value in pairs if key.value == "kind"), "")
        if named not in LOADS:
            raise self.error(node, f"load.kind {named!r} is unknown", f"one of: {', '.join(LOADS)}")
        return LOADS[named]

    def checked(self, tree: dict[str, Any], where: str, node: Any) -> Any:
        """Check a group against its type and its rules; the whole is made into a request. Raises OptionError."""
        try:
            if not where:
                return msgspec.convert(tree, RunRequest)
            msgspec.convert(tree, LOADS[tree["kind"]] if where == "load" else GROUPS[where])
        except msgspec.ValidationError as error:
            what, _, inside = str(error).partition(" - at `$")
            place = ".".join(filter(None, (where, inside.strip("`.")))).partition("[")[0]
            raise OptionError(
                f"{self.path}:{self.lines.get(place, node.start_mark.line + 1)}: {place}: {what}"
            ) from None
        except OptionError as error:
            raise self.error(node, error.what, error.fix) from error
        return tree

    def error(self, node: Any, what: str, fix: str | None) -> OptionError:
        """An error with the node's line."""
        return OptionError(f"{self.path}:{node.start_mark.line + 1}: {what}", fix=fix)


def text_of(request: RunRequest) -> str:
    """Write what a request gives besides defaults as a file, which is read as the same request."""
    whole, usual = msgspec.to_builtins(request), msgspec.to_builtins(RunRequest())
    found = {}
    for name, value in whole.items():
        if name in GROUPS:
            value = {key: each for key, each in value.items() if each != usual[name][key]}  # noqa: PLW2901
        if name == "load" or value not in (usual[name], {}):
            found[name] = value
    return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=1 << 20))


def starter(request: RunRequest) -> Iterator[str]:
    """Write a request's fields as lines of a file, and every other field with its help behind a `#`."""
    given = given_options(request)
    for name, kind in (("", RunRequest), ("load", type(request.load)), *GROUPS.items()):
        indent = "  " if name else ""
        yield f"{name}:\n" if name else ""
        if name == "load":
            yield f"  kind: {kind.__struct_config__.tag}  # one of: {', '.join(LOADS)}\n"
        tree = msgspec.to_builtins(getattr(request, name) if name else request)
        for option in options_in(kind, name).values():
            line = yaml.safe_dump({option.field: tree[option.field]}, default_flow_style=True, width=1 << 20)
            line = line.strip("{}\n")
            comment = f"{indent}# {option.flag.help}\n{indent}# {line}\n"
            yield f"{indent}{line}\n" if option.name in given else comment
