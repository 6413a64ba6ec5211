"""Requests to a described endpoint, serialised ahead, and its answers, judged and decoded."""

import base64
import binascii
from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from loadgen.endpoints.endpoint import AnswerForm, Endpoint, at_pointer, filled, places
from loadgen.kserve.http_messages import ResponseChecker, lead_of
from loadgen.kserve.tensors import BYTES
from loadgen.sut.channel import Mismatch
from loadgen.transport.access import lines_of, merged
from loadgen.transport.http1_head import HEAD_END, Head
from loadgen.transport.limits import MAX_REMEMBERED, MAX_REMEMBERED_BYTES
from servemark.errors import InputDataError, OptionError
from servemark.repository.names import in_path
from servemark.workload import Arrays, Tensor, Workload, numbers

_SHOWN_BYTES = 200
_SPACES = b" \t\r\n"
NUMBER = b"0123456789+-.eE" + _SPACES
_OTHER_LAYOUT = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


class Encoder:
    """Serialises batches for one model at an endpoint. Raises OptionError where the description does not fit it."""

    def __init__(
        self,
        endpoint: Endpoint,
        workload: Workload,
        host: str,
        model: str,
        *,
        version: str = "",
        root: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._endpoint, self._workload = endpoint, workload
        path = root + path_of(endpoint, model, version)
        fields = merged({"Content-Type": "application/json"}, endpoint.request.headers, dict(headers))
        lines = [f"POST {path} HTTP/1.1", *lines_of(host, fields)]
        self._head = "\r\n".join(lines).encode() + b"\r\nContent-Length: "
        self._named = {"model": model, "version": version}
        check_places(endpoint.request.body, workload)

    def __call__(self, arrays: Arrays) -> bytes:
        """Make one whole request of a batch. Raises InputDataError for what JSON cannot carry."""
        body = msgspec.json.encode(filled(self._endpoint.request.body, self._named | self._values(arrays)))
        return self._head + str(len(body)).encode() + HEAD_END + body

    def _values(self, arrays: Arrays) -> dict[str, Any]:
        """Return the values of the places: all samples' by input, and by sample.

        A sample is an object of its inputs, or the value of the only one; `object` is always the former.
        """
        nested = {name: nested_values(array, as_b64=self._endpoint.bytes_as == "b64") for name, array in arrays.items()}
        samples = by_sample(nested, self._workload)
        rows = [sample if len(sample) > 1 else next(iter(sample.values())) for sample in samples]
        one = {f"row.{name}": value for name, value in samples[0].items()}
        first = {f"{name}.0": value[0] for name, value in one.items() if isinstance(value, list) and value}
        return {**nested, **one, **first, "rows": rows, "row": rows[0], "object": samples[0]}


def by_sample(inputs: Mapping[str, Any], workload: Workload) -> list[dict[str, Any]]:
    """Return the inputs of each sample of a batch; without batches there is one."""
    if not workload.batched:
        return [dict(inputs)]
    count = len(next(iter(inputs.values())))
    return [{name: values[row] for name, values in inputs.items()} for row in range(count)]


def check_places(body: Any, workload: Workload, more: Set[str] = frozenset()) -> None:
    """Check that each place in a body has a value. Raises OptionError."""
    names = [tensor.name for tensor in workload.inputs]
    known = {"model", "version", "rows", "row", "object", *names, *more}
    known |= {f"row.{name}{index}" for name in names for index in ("", ".0")}
    if unknown := sorted(places(body) - known):
        raise OptionError(
            f"--endpoint-type: {{{{{unknown[0]}}}}} is not an input of {workload.name}",
            fix=f"one of: {', '.join(sorted(known))}",
        )


def require_outputs(workload: Workload) -> None:
    """Raise OptionError if no output is declared, because then nothing of an answer would be checked."""
    if not workload.outputs:
        raise OptionError(
            "a model without metadata needs its inputs and its outputs",
            fix="--input NAME:FP32:-1,4 --output NAME:FP32:-1,3",
        )


def check_outputs(named: str, workload: Workload, pointed: Mapping[str, str]) -> None:
    """Check that an endpoint's pointers name the outputs of a workload. Raises OptionError."""
    if lacking := [each.name for each in workload.outputs if each.name not in pointed]:
        raise OptionError(
            f"--endpoint-type {named}: answer.outputs does not have {lacking[0]}, an output of {workload.name}",
            fix=f"it has {', '.join(pointed) or 'none'}: correct --output, or the file",
        )


def path_of(endpoint: Endpoint, model: str, version: str) -> str:
    """Return the path of requests. Raises OptionError where the endpoint has none for a version."""
    request = endpoint.request
    if version and not request.versioned_path:
        raise OptionError("--model-version: this endpoint type has no versions", fix="leave it out")
    template = request.versioned_path if version else request.path
    return str(filled(template, {"model": in_path(model), "version": version and in_path(version)}))


def nested_values(array: npt.NDArray[np.generic], *, as_b64: bool) -> Any:
    """Return an array as nested lists that JSON can carry. Raises InputDataError."""
    if array.dtype.kind == "O":
        flat: list[Any] = []
        for element in array.ravel():
            raw = bytes(element or b"")  # padding is 0
            if as_b64:
                flat.append({"b64": base64.b64encode(raw).decode()})
                continue
            try:
                flat.append(raw.decode())
            except UnicodeDecodeError as error:
                raise InputDataError(
                    f"JSON carries text, and an element of BYTES is not text: {error.reason}",
                    fix='inputs of text; or "bytes_as": "b64" in the file of --endpoint-type',
                ) from error
        texts = np.empty(array.size, np.object_)
        texts[:] = flat
        return texts.reshape(array.shape).tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputDataError("JSON has no NaN and no infinity", fix="other inputs")
    return array.tolist()


class AnswerChecker(ResponseChecker):
    """Checks every answer of one model: status, and number, kind and shape of the outputs' values.

    Two good answers differ in their numbers only. So what is left without them is remembered, and compared: numbers
    are counted where they stand, and not read.
    """

    def __init__(self, outputs: Sequence[Tensor], batch_size: int, answer: AnswerForm) -> None:
        super().__init__(outputs, batch_size)
        self.answer = answer
        self._shapes_of_answers: set[bytes] = set()
        stripped = {tensor.name.encode().translate(None, NUMBER) for tensor in outputs}
        self._names_differ = len(stripped) == len(outputs)

    def judge(self, head: Head, body: bytes) -> str | None:
        form = body.translate(None, NUMBER)
        known = head.status == 200 and form in self._shapes_of_answers
        # A list of one number and an empty one have the same form.
        if known and (b"[]" not in form or b"[]" not in body.translate(None, _SPACES)):
            return None
        error = self.judge_values(head, body)
        few = len(self._shapes_of_answers) < MAX_REMEMBERED and len(form) <= MAX_REMEMBERED_BYTES
        if error is None and few and self._names_differ:
            self._shapes_of_answers.add(form)
        return error

    def judge_values(self, head: Head, body: bytes) -> str | None:
        """Read the numbers too: those that were only counted may be none."""
        if head.status != 200:
            return f"http_{head.status}"
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return "malformed_response"
        lead = lead_of(self.batch_size)
        for tensor in self.outputs:
            try:
                values = self._values(document, tensor.name)
            except (LookupError, TypeError):
                seen = f"nothing there: {body[:_SHOWN_BYTES].decode(errors='replace')}"
                return Mismatch.of("missing_output", tensor, lead, seen)
            try:
                array = as_array(values, tensor)
            except _OTHER_LAYOUT:
                seen = f"values that are not {tensor.datatype}, or rows of unequal lengths"
                return Mismatch.of("wrong_shape", tensor, lead, seen)
            if list(array.shape[: len(lead)]) != lead or not tensor.fits(array.shape[len(lead) :]):
                return Mismatch.of("wrong_shape", tensor, lead, f"{tensor.datatype}{list(array.shape)}")
        return None

    def _values(self, document: Any, name: str) -> Any:
        """Return one output's values, of all samples where there are batches. Raises LookupError, TypeError."""
        answer = self.answer
        if answer.outputs:
            return at_pointer(document, answer.outputs[name])
        rows = (
            at_pointer(document, answer.rows) if answer.rows is not None else [at_pointer(document, answer.row or "")]
        )
        if not isinstance(rows, list):
            raise TypeError("the samples' values are not a list")
        if len(self.outputs) > 1 and not all(isinstance(row, dict) for row in rows):
            raise LookupError("a value without a name, which may be of any output")
        values = [row[name] if isinstance(row, dict) else row for row in rows]
        return values if self.batch_size else values[0]

    def decode(self, _head: Head, body: bytes, outputs: Sequence[Tensor]) -> Arrays:
        document = msgspec.json.decode(body)
        return {tensor.name: as_array(self._values(document, tensor.name), tensor) for tensor in outputs}


def as_array(values: Any, tensor: Tensor) -> npt.NDArray[np.generic]:
    """Return an output's values as an array. Raises ValueError, TypeError where they are not of its datatype."""
    if tensor.datatype != BYTES:
        array = numbers(values) if tensor.dtype.kind in "iu" else np.array(values)
        if array.dtype.kind not in "biuf" and not (array.dtype.kind == "O" and tensor.dtype.kind in "iu"):
            raise ValueError(f"values that are not {tensor.datatype}")
        with np.errstate(all="ignore"):  # beyond the datatype: infinite, or any number
            return array.astype(tensor.dtype)
    texts = np.array(values, np.object_)
    elements = np.empty(texts.size, np.object_)
    elements[:] = [_raw(each) for each in texts.ravel()]
    return elements.reshape(texts.shape)


def _raw(element: Any) -> bytes:
    """Return an element of BYTES. Raises ValueError."""
    if isinstance(element, str):
        return element.encode()
    if isinstance(element, Mapping) and isinstance(element.get("b64"), str):
        try:
            return base64.b64decode(element["b64"], validate=True)
        except binascii.Error as error:
            raise ValueError("not base64") from error
    raise ValueError(f"not a text: {element!r:.50}")
