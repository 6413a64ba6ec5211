"""KServe v2 over HTTP with the binary tensor extension: requests serialised ahead, responses checked as they come.

Source: Open Inference Protocol, "Inference Request/Response", and Triton's "Binary Tensor Data Extension".
"""

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from loadgen.kserve.tensors import from_bytes, from_json, json_count, raw_size_fits, to_bytes, to_json
from loadgen.sut.channel import Mismatch, judge_outputs
from loadgen.transport.access import lines_of
from loadgen.transport.http1_head import HEAD_END, Head, parse_head
from loadgen.transport.limits import (
    GZIP,
    MAX_REMEMBERED,
    MAX_REMEMBERED_BYTES,
    MalformedResponse,
    TooLarge,
    compress,
    decompress,
    max_message_bytes,
)
from servemark.figures.evidence import Volume
from servemark.repository.names import in_path
from servemark.workload import Arrays, Tensor

_HOLE = re.compile(rb'"id"\s*:\s*"([^"\\]*)"|"data"\s*:\s*\[([^\[\]"]*)\]')
_OF_NUMBERS = b"0123456789+-.eE, \t\r\n"
MAX_FORMS = 4
"""Maximum number of JSON answer forms tried; a server has one form, or one for each shape of its outputs."""


@dataclass(frozen=True)
class JsonForm:
    """A good answer without its values: `parts` lie around the holes, of which `counts` says how many numbers each has.

    A server repeats itself: two answers differ in an id and in the values of the tensors. Comparing what lies around
    them and counting their commas takes a small part of the time that parsing them does.

    None is the count of an id. A list of strings or of lists is not such a hole: an answer with one has no form.
    """

    parts: tuple[bytes, ...]
    counts: tuple[int | None, ...]

    @classmethod
    def of(cls, body: bytes, sizes: Sequence[int]) -> Self | None:
        """Find the form of a right answer, with these numbers of elements in its outputs; None if it has no form."""
        parts, counts, position = [], list[int | None](), 0
        for hole in _HOLE.finditer(body):
            group = 1 if hole[1] is not None else 2
            start, position_after = hole.span(group)
            parts.append(body[position:start])
            counts.append(None if group == 1 else hole[2].count(b",") + 1)
            position = position_after
        parts.append(body[position:])
        form = cls(tuple(parts), tuple(counts))
        known = [count for count in counts if count is not None] == list(sizes) and 0 not in sizes
        short = sum(map(len, parts)) <= MAX_REMEMBERED_BYTES
        return form if known and short and form.fits(body) else None

    def fits(self, body: bytes) -> bool:
        """Return True if an answer has this form: only its id and its numbers may differ."""
        position = 0
        for part, count in zip(self.parts, self.counts, strict=False):
            if not body.startswith(part, position):
                return False
            position += len(part)
            end = body.find(b'"' if count is None else b"]", position)
            if end < 0:
                return False
            if count is not None:
                values = body[position:end]
                if values.count(b",") + 1 != count or values.translate(None, _OF_NUMBERS):
                    return False
                if count == 1 and not values.strip():  # no comma, and no number
                    return False
            position = end
        return body[position:] == self.parts[-1]


class Formats(NamedTuple):
    """Encodings of the tensors, each `binary` (the protocol's extension) or `json`."""

    inputs: str
    outputs: str


NOTHING: Mapping[str, object] = MappingProxyType({})
BINARY = Formats("binary", "binary")


def encode_request(
    host: str,
    model: str,
    inputs: Arrays,
    outputs: Sequence[Tensor],
    datatypes: Mapping[str, str],
    headers: Sequence[tuple[str, str]] = (),
    *,
    path: str = "",
    formats: Formats = BINARY,
    parameters: Mapping[str, object] = NOTHING,
    request_id: str = "",
) -> bytes:
    """One whole HTTP request: head with `headers` too, JSON header, tensors. `inputs` carry the batch dimension.

    `path` is the model's on its server; empty: as KServe v2 has it, at the server's root.
    Raises OptionError, InputDataError for what JSON cannot carry.
    """
    tensors, wanted = b"", {"parameters": {"binary_data": True}} if formats.outputs == "binary" else {}
    listed: list[dict[str, Any]] = []
    for name, array in inputs.items():
        described = {"name": name, "shape": list(array.shape), "datatype": datatypes[name]}
        if formats.inputs == "binary":
            raw = to_bytes(array, datatypes[name])
            tensors += raw
            listed.append({**described, "parameters": {"binary_data_size": len(raw)}})
        else:
            listed.append({**described, "data": to_json(array, datatypes[name])})
    header = {
        **({"id": request_id} if request_id else {}),
        **({"parameters": dict(parameters)} if parameters else {}),
        "inputs": listed,
        "outputs": [{"name": tensor.name, **wanted} for tensor in outputs],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    kind: dict[str, object] = (
        {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": len(text)}
        if formats.inputs == "binary"
        else {"Content-Type": "application/json"}
    )
    fields = dict(headers) | kind | {"Content-Length": len(text) + len(tensors)}
    return request_head(host, path or model_path(in_path(model), ""), fields) + text + tensors


_LENGTH = re.compile(rb"(?im)^(content-length: )\d+")


def compressed(request: bytes, volume: Volume) -> bytes:
    """Return a whole HTTP request with its body as a gzip. The JSON header's length stays that before compression."""
    head, end, body = request.partition(HEAD_END)
    packed = compress(body)
    volume.request(len(body), len(packed))
    head = _LENGTH.sub(lambda found: found[1] + b"%d" % len(packed), head)
    return head + b"\r\nContent-Encoding: gzip" + end + packed


def model_path(spelling: str, version: str) -> str:
    """Return the path of a model, whose name is spelled as its server reads it, or of one version of it."""
    path = f"/v2/models/{spelling}"
    return f"{path}/versions/{in_path(version)}" if version else path


def request_head(host: str, path: str, fields: Mapping[str, object]) -> bytes:
    """The head of an inference request to the model at a path, with these header fields."""
    lines = [f"POST {path}/infer HTTP/1.1", *lines_of(host, fields)]
    return "\r\n".join(lines).encode() + HEAD_END


@dataclass(frozen=True)
class Asked:
    """The model that requests name, and the versions of it that may answer: the one asked for, or those served."""

    model: str
    versions: frozenset[str] = frozenset()
    """Empty: any, since neither the request nor the server's metadata names one."""

    def judge(self, model: object, version: object) -> str | None:
        """The kind of error where an answer names another one. One that names none is taken."""
        if model and model != self.model:
            return "wrong_model"
        if version and self.versions and str(version) not in self.versions:
            return "wrong_version"
        return None


def judge_description(output: Any, tensor: Tensor, lead: Sequence[int]) -> str | None:
    """The kind of error of what an answer says of an output, None where it is right."""
    datatype, shape = output.get("datatype"), output.get("shape")
    if datatype == tensor.datatype and _fits(shape, lead, tensor):
        return None
    kind = "wrong_shape" if datatype == tensor.datatype else "wrong_datatype"
    return Mismatch.of(kind, tensor, lead, f"{datatype}{shape}")


def lead_of(batch_size: int) -> list[int]:
    """Return the dimensions before a tensor's own: that of the batch, or none without batches."""
    return [batch_size] if batch_size else []


def judge_output(output: Any, tensor: Tensor, lead: Sequence[int]) -> str | None:
    """The kind of error of one described output with its values, None where it is right."""
    error = judge_description(output, tensor, lead)
    if error:
        return error
    shape = output["shape"]
    size = (output.get("parameters") or {}).get("binary_data_size")
    if size is None and "data" not in output:
        return Mismatch.of("missing_output", tensor, lead, f"{tensor.datatype}{shape} without values")
    right = (
        json_count(output["data"], tensor) == math.prod(shape) if size is None else raw_size_fits(size, tensor, shape)
    )
    return None if right else "wrong_size"


def _fits(shape: Any, lead: Sequence[int], tensor: Tensor) -> bool:
    """Return True if the shape is that of a tensor after those of `lead`.

    Triton knows no tensor without dimensions: one value per sample has one of 1 there.
    """
    return (
        isinstance(shape, list)
        and all(type(size) is int and size >= 0 for size in shape)  # True is an int, too
        and shape[: len(lead)] == lead
        and (tensor.fits(shape[len(lead) :]) or (not tensor.shape and shape[len(lead) :] == [1]))
    )


@dataclass
class ResponseChecker:
    """Checks every response of one model: status, model, names, datatypes and shapes of the outputs.

    A server repeats itself: the head and the JSON header of two good answers are the same bytes. Each distinct one is
    parsed and judged once and then looked up, so that checking all responses costs two dictionary look-ups.
    """

    outputs: Sequence[Tensor]
    batch_size: int
    """0: the tensors have no batch dimension."""
    asked: Asked | None = None
    """None: answers of any model are taken."""
    volume: Volume | None = None
    """Counts the answers that come compressed; None: no answer may."""
    _heads: dict[bytes, Head] = field(default_factory=dict)
    _headers: dict[bytes, tuple[str | None, int]] = field(default_factory=dict)
    _forms: list[JsonForm] = field(default_factory=list)
    judge_tensor = staticmethod(judge_output)

    @functools.cached_property
    def max_bytes(self) -> int:
        """The longest body that is taken."""
        return max_message_bytes(self.outputs, self.batch_size)

    def head(self, head: bytes) -> Head:
        """Parse a response head, without its empty line. Raises MalformedResponse, TooLarge."""
        known = self._heads.get(head)
        if known is None:
            known = parse_head(head)
            if known.content_length > self.max_bytes:
                raise TooLarge(known.content_length, self.max_bytes)
            remember(self._heads, head, known)
        return known

    def unpacked(self, head: Head, body: bytes) -> bytes:
        """Return the body of a response that came in another form. Raises ConnectionFailed."""
        if self.volume is None or head.encoding != GZIP:
            raise MalformedResponse(f"an answer in {head.encoding[:80]!r}, which was not asked for")
        plain = decompress(body, self.max_bytes)
        self.volume.answer(len(body), len(plain))
        return plain

    def judge(self, head: Head, body: bytes) -> str | None:
        """The kind of error of a complete response, None where it is right."""
        if head.status != 200:
            return f"http_{head.status}"
        if head.json_length is None:
            return self._judge_json(body)
        text = body[: head.json_length]
        known = self._headers.get(text)
        if known is None:
            known = self._judge_header(text)
            remember(self._headers, text, known)
        error, binary_size = known
        if error is None and len(body) - head.json_length != binary_size:
            return "wrong_size"
        return error

    def judge_values(self, head: Head, body: bytes) -> str | None:
        """Judge a response whose values will be read."""
        return self.judge(head, body)

    def decode(self, head: Head, body: bytes, outputs: Sequence[Tensor]) -> Arrays:
        """Return the outputs of a response that was judged right, each with the batch dimension."""
        text, binary = (body, b"") if head.json_length is None else (body[: head.json_length], body[head.json_length :])
        described, offset = list[tuple[Mapping[str, Any], bytes]](), 0
        for output in json.loads(text)["outputs"]:
            end = offset + int((output.get("parameters") or {}).get("binary_data_size", 0))
            described.append((output, binary[offset:end]))
            offset = end
        return arrays_of(described, outputs)

    def _judge_json(self, body: bytes) -> str | None:
        """The kind of error of an answer without binary tensors: its values are part of the text, no two are alike."""
        if any(form.fits(body) for form in self._forms):
            return None
        error, binary_size = self._judge_header(body)
        if error is None and binary_size:
            return "wrong_size"
        if error is None and len(self._forms) < MAX_FORMS:
            listed = json.loads(body)["outputs"]
            # of outputs that were not asked for nothing is known, not even that they have a shape
            asked_for = len(listed) == len(self.outputs)
            form = JsonForm.of(body, [math.prod(output["shape"]) for output in listed]) if asked_for else None
            if form is not None:
                self._forms.append(form)
        return error

    def _judge_header(self, text: bytes) -> tuple[str | None, int]:
        """The kind of error (None: right) and the bytes that the described binary tensors take."""
        try:
            answer = json.loads(text)
            listed = answer["outputs"]
            described = {output["name"]: output for output in listed}
            sizes = [(output.get("parameters") or {}).get("binary_data_size", 0) for output in listed]
            if len(described) < len(listed) or not all(type(size) is int and size >= 0 for size in sizes):
                return "malformed_response", 0
            other = self.asked and self.asked.judge(answer.get("model_name"), answer.get("model_version"))
            error = other or judge_outputs(described, self.outputs, lead_of(self.batch_size), self.judge_tensor)
            return error, sum(sizes)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return "malformed_response", 0


def remember(known: dict[bytes, Any], text: bytes, meaning: object) -> None:
    """Keep what a short text means, as long as there are not too many."""
    if len(known) < MAX_REMEMBERED and len(text) <= MAX_REMEMBERED_BYTES:
        known[text] = meaning


def arrays_of(described: Iterable[tuple[Mapping[str, Any], bytes]], outputs: Sequence[Tensor]) -> Arrays:
    """Return the outputs of an answer that was judged right, each with the batch dimension, by their descriptions.

    Those are as in the JSON header; each comes with its raw bytes, which are empty where it has its values in JSON. A
    server may give one value per sample a dimension of 1, which is taken away.
    """
    known = {tensor.name: tensor for tensor in outputs}
    arrays = {}
    for output, raw in described:
        if (tensor := known.get(output["name"])) is not None:
            array = (
                from_bytes(raw, tensor.datatype, output["shape"])
                if "binary_data_size" in (output.get("parameters") or {})
                else from_json(output["data"], tensor.datatype, output["shape"])
            )
            arrays[tensor.name] = array[:, 0] if not tensor.shape and array.ndim == 2 else array
    return arrays


def error_message(head: Head, body: bytes) -> str:
    """The server's error message, as far as it can be read; of a redirect its goal, to which no request is sent."""
    if head.location and 300 <= head.status < 400:
        return f"HTTP {head.status}: a redirect to {head.location[:200]}"
    try:
        message = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = body[:200].decode(errors="replace") or "no message"
    return f"HTTP {head.status}: {message}"
