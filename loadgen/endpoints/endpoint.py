"""Description of an endpoint: the request that it takes, with places for values, and where its answer has them."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from loadgen.transport.access import fault_of
from servemark import files
from servemark.errors import InputDataError, OptionError

SUFFIX = ".json"
TYPES = Path(__file__).with_name("types")
PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
"""A place in a text, like {{model}}; a text that is nothing else is replaced by a JSON value."""
METHOD = re.compile(r"[A-Za-z_][\w.]*/[A-Za-z_]\w*", re.ASCII)
EACH = "*"
MAX_FILE_BYTES = 1 << 20
FIX = "docs/guides/own_server.md shows the keys; copy one of loadgen/endpoints/types/"


class RequestForm(Struct, frozen=True, forbid_unknown_fields=True):
    """A request. Its body is any JSON with places where values belong: see `loadgen.endpoints.messages.values_of`."""

    body: Any
    path: str = ""
    """Over HTTP the path."""
    method: str = ""
    """Over gRPC the full name of a unary method, like package.Service/Method; then the body is a message as JSON."""
    descriptor_set: str = ""
    """File that describes the method's messages, beside this one (protoc --descriptor_set_out); empty: the server is
    asked (reflection)."""
    versioned_path: str = ""
    """The path where a version of the model is asked for; empty: versions are refused."""
    headers: dict[str, str] = {}


class AnswerForm(Struct, frozen=True, forbid_unknown_fields=True):
    """JSON pointers (RFC 6901) to the values of an answer, exactly one of the three; * stands for each of a list.

    An answer over gRPC has `outputs`, or none of them: only its status is looked at.
    """

    rows: str | None = None
    """A list with a value for each sample: the value of the only output, or an object with one value per output."""
    row: str | None = None
    """The value of the only sample."""
    outputs: dict[str, str] = {}
    """Output -> its values of all samples."""


class Endpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint."""

    about: str
    """One sentence: which servers, and the page that specifies it."""
    request: RequestForm
    answer: AnswerForm = AnswerForm()
    ready: str = ""
    """Path that answers 200 where the model can be asked; empty: only the first request tells."""
    bytes_as: Literal["text", "b64"] = "text"
    """An element of BYTES as a text of UTF-8, or as {"b64": BASE64}, as TensorFlow Serving has it."""

    def __post_init__(self) -> None:
        request, answer = self.request, self.answer
        given = (answer.rows is not None) + (answer.row is not None) + bool(answer.outputs)
        if bool(request.path) == bool(request.method):
            raise ValueError("request: give one of path (HTTP) and method (gRPC)")
        if request.method:
            _check_method(request, only_outputs=given == bool(answer.outputs), ready=self.ready)
        elif request.descriptor_set:
            raise ValueError("request.descriptor_set is for a method over gRPC")
        elif given != 1:
            raise ValueError("answer: give one of rows, row, outputs")
        for pointer in (answer.rows or "", answer.row or "", *answer.outputs.values()):
            if pointer and not pointer.startswith("/"):
                raise ValueError(f"answer: {pointer!r} is not a JSON pointer, which begins with /")
        for path in (request.path or "/", request.versioned_path or "/", self.ready or "/"):
            if not path.startswith("/") or re.search(r"[\s\x00-\x1f]", path):
                raise ValueError(f"{path!r} is not a path, which begins with / and has no spaces")
        for name, value in request.headers.items():
            if wrong := fault_of(name, value, may_give_type=not request.method):
                raise ValueError(f"request.headers: {name!r}: {wrong}")
        names = [name.lower() for name in request.headers]
        if again := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"request.headers: {again[0]} is there twice")


def _check_method(request: RequestForm, *, only_outputs: bool, ready: str) -> None:
    """Check what a description over gRPC has. Raises ValueError."""
    if not METHOD.fullmatch(request.method):
        raise ValueError(f"request.method: {request.method!r} is not like package.Service/Method")
    if not only_outputs or ready or request.versioned_path:
        raise ValueError("over gRPC there is no answer.rows, answer.row, ready and request.versioned_path")


def built_in() -> list[str]:
    """List the endpoint types that servemark describes."""
    return sorted(file.stem for file in TYPES.glob(f"*{SUFFIX}"))


def endpoint_of(named: str) -> Endpoint:
    """Read an endpoint type by its name, or a file that describes one. Raises OptionError, InputDataError."""
    if named in built_in():
        return _described(TYPES / f"{named}{SUFFIX}")
    file = Path(named)
    if not file.is_file():
        raise OptionError(
            f"--endpoint-type {named}: it is not a type, and there is no such file",
            fix=f"one of {', '.join(built_in())}; or a JSON file that describes it",
        )
    return _described(file, file.stat().st_mtime_ns)


@functools.cache
def _described(file: Path, _modified_ns: int = 0) -> Endpoint:
    """Read a file once for all that ask in a run, and again where it has changed. Raises InputDataError."""
    try:
        return msgspec.json.decode(files.text(file, MAX_FILE_BYTES), type=Endpoint)
    except (OSError, ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        words = getattr(error, "strerror", None) or error
        raise InputDataError(
            f"{file} does not describe an endpoint: {words}", fix=getattr(error, "fix", FIX)
        ) from error


def over_http(named: str) -> Endpoint:
    """Read an endpoint that is spoken over HTTP, as `endpoint_of` does."""
    endpoint = endpoint_of(named)
    if endpoint.request.method:
        raise OptionError(
            f"--endpoint-type {named} is spoken over gRPC, and --url is HTTP", fix="--url grpc://HOST:PORT"
        )
    return endpoint


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its places filled. Raises KeyError with the name of a place that has no value."""
    if isinstance(template, str):
        whole = PLACE.fullmatch(template)
        return values[whole[1]] if whole else PLACE.sub(lambda place: str(values[place[1]]), template)
    if isinstance(template, list):
        return [filled(each, values) for each in template]
    if isinstance(template, dict):
        return {key: filled(value, values) for key, value in template.items()}
    return template


def places(template: Any) -> set[str]:
    """Names of the places in a template."""
    if isinstance(template, str):
        return set(PLACE.findall(template))
    nested = template if isinstance(template, list) else list(template.values()) if isinstance(template, dict) else []
    return {name for each in nested for name in places(each)}


def at_pointer(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer points to, with a * the list of all. Raises LookupError where nothing is there."""
    parts = pointer.split("/")[1:]
    for place, part in enumerate(parts):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            if key == EACH:
                rest = "".join(f"/{each}" for each in parts[place + 1 :])
                return [at_pointer(each, rest) for each in document]
            if not re.fullmatch(r"0|[1-9][0-9]{0,8}", key):
                raise LookupError(pointer)
            document = document[int(key)]
        elif isinstance(document, dict):
            document = document[key]
        else:
            raise LookupError(pointer)
    return document
