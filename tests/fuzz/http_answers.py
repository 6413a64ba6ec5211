"""Answers of a server over HTTP/1.1: against h11, and tritonclient's reading of the tensors."""

import json
import re
from typing import Any

import h11
import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tritonclient.http import InferResult

from loadgen.kserve.http_connection import Connection, Response
from loadgen.kserve.http_messages import Asked, ResponseChecker
from loadgen.targets.shared_slots import SharedChecker
from servemark.workload import Tensor
from tests.fuzz.damage import ODD_VALUES, damaged
from tests.fuzz.target import Target
from tests.fuzz.wire import arrays_of, check_conversation, converse

OUTPUTS = (Tensor("A", "FP32", (3,)), Tensor("B", "INT64", (-1,)))
REQUEST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
WORDS = (
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", b"HTTP/1.0", b" 204 ", b" 500 ",
    b"\r\nConnection: close", b"\r\nConnection: keep-alive, close", b"\r\nTransfer-Encoding: chunked",
    b"\r\nContent-Length: 5", b"\r\nInference-Header-Content-Length: 7", b"\r\n folded", b'"binary_data_size":8',
    b'{"error":"\\ud800"}', b'"data":[1,2,3]', b"\r\n\r\n",
)  # fmt: skip
ASKED = Asked("m", frozenset({"1"}))


def right(length: int = 2, *, binary: bool = True) -> tuple[dict[str, Any], bytes]:
    """The JSON header and the tensors of a right answer."""
    a, b = np.array([[1, -0.0, 2.5]], "f4"), np.arange(length, dtype="i8").reshape(1, length)
    outputs: list[dict[str, Any]] = []
    for name, datatype, array in (("A", "FP32", a), ("B", "INT64", b)):
        held = {"parameters": {"binary_data_size": array.nbytes}} if binary else {"data": array.ravel().tolist()}
        outputs.append({"name": name, "datatype": datatype, "shape": list(array.shape), **held})
    return {"model_name": "m", "outputs": outputs}, (a.tobytes() + b.tobytes()) if binary else b""


def render(
    status: int,
    text: bytes,
    tensors: bytes | None,
    *,
    extra: bytes = b"",
    interim: bytes = b"",
    chunk: int = 0,
    around: tuple[bytes, bytes] = (b"", b""),
) -> bytes:
    """A whole answer; `tensors` is None where it is JSON alone. `around` are a chunk's extension, and trailers."""
    split = b"" if tensors is None else b"Inference-Header-Content-Length: %d\r\n" % len(text)
    body = text + (tensors or b"")
    if chunk:
        pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
        chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(piece), around[0], piece) for piece in pieces)
        head = b"%sHTTP/1.1 %d X\r\n%s%sTransfer-Encoding: chunked\r\n\r\n" % (interim, status, extra, split)
        return head + chunks + b"0\r\n" + around[1] + b"\r\n"
    return b"%sHTTP/1.1 %d X\r\n%s%sContent-Length: %d\r\n\r\n%s" % (interim, status, extra, split, len(body), body)


@st.composite
def answers(draw: DrawFn) -> bytes:
    """Answers that are framed well, mostly; what they say may be odd."""
    binary = draw(st.booleans())
    header, tensors = right(draw(st.sampled_from((2, 0, 1, 7))), binary=binary)
    for output in header["outputs"]:
        if draw(st.integers(0, 3)) == 0:
            key = draw(st.sampled_from(("name", "datatype", "shape", "data", "parameters")))
            odd = st.one_of(ODD_VALUES, st.just([True, 3]), st.just({"binary_data_size": draw(ODD_VALUES)}))
            output[key] = draw(odd)
    if draw(st.integers(0, 3)) == 0:
        spare = {"name": "C", "parameters": {"binary_data_size": draw(st.sampled_from((0, 3, -8, 1 << 70)))}}
        header["outputs"].insert(draw(st.integers(0, 2)), spare)
    status = draw(st.sampled_from((200, 200, 200, 500, 503)))
    document: Any = header if status == 200 else {"error": draw(ODD_VALUES)}
    interim = draw(st.sampled_from((b"", b"", *WORDS[:2])))
    extra = draw(st.sampled_from((b"", b"", *(word[2:] + b"\r\n" for word in WORDS[5:7]))))
    text = json.dumps(document, separators=(",", ":")).encode()
    chunk = draw(st.sampled_from((0, 0, 1, 7, 50, 1 << 20)))
    around = draw(st.sampled_from(((b"", b""), (b" ;a=b", b"Server-Timing: db;dur=53\r\n"))))
    return render(status, text, tensors if binary else None, extra=extra, interim=interim, chunk=chunk, around=around)


CONNECTIONS = damaged(answers(), WORDS)
PRIMER = render(200, json.dumps(right()[0]).encode(), right()[1])


def read_connection(data: bytes) -> None:
    """One connection; also after a right answer on it, which makes short cuts of what comes next."""
    fresh = ResponseChecker(OUTPUTS, 1, ASKED)
    first = check_conversation(lambda address: Connection(address, fresh), REQUEST, OUTPUTS, data)
    _same_as_h11(first.answer, data)
    primed = ResponseChecker(OUTPUTS, 1, ASKED)
    later = converse(lambda address: Connection(address, primed), REQUEST, [PRIMER, data])
    assert later[0].kind is None
    if first.answer is not None:
        assert later[1].answer is not None, "refused after a right answer"
        assert (later[1].kind, later[1].answer.size) == (first.kind, first.answer.size)
        if first.kind is None:
            ours, again = arrays_of(first.answer, OUTPUTS), arrays_of(later[1].answer, OUTPUTS)
            assert (ours is None) == (again is None)
            if ours is not None and again is not None:
                assert all(np.array_equal(ours[name], again[name], equal_nan=True) for name in ours)
                _same_as_tritonclient(first.answer, ours)
    else:
        assert len(later) < 2 or later[1].kind == first.kind, "accepted after a right answer"
    shared = SharedChecker(OUTPUTS, 1)
    check_conversation(lambda address: Connection(address, shared), REQUEST, (), data)


def _same_as_h11(answer: Any, data: bytes) -> None:
    """Check that an answer with a length or chunks is read as h11 reads it, where h11 takes it as whole."""
    theirs = _h11(data)
    if theirs is None:
        return
    status, body, json_length = theirs
    limit = ResponseChecker(OUTPUTS, 1).max_bytes
    if answer is None and (len(body) > limit or not re.fullmatch(b"[0-9]{1,18}", json_length)):
        return
    if answer is None and re.search(rb"(?<!\r)\n", data if b"chunked" in data else data.partition(b"{")[0]):
        return  # h11 takes a lone LF as the end of a line too, which RFC 9112 leaves open
    assert isinstance(answer, Response), f"h11 reads {status} and {len(body)} bytes"
    assert (answer.head.status, answer.body) == (status, body)


def _h11(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Status, body and the field for JSON; None where h11 refuses, or the end tells the length."""
    peer = h11.Connection(h11.CLIENT)
    peer.send(h11.Request(method="POST", target="/", headers=[("Host", "h"), ("Content-Length", "0")]))
    peer.send(h11.EndOfMessage())
    status, body, fields = 0, b"", {}
    try:
        peer.receive_data(data)
        while True:
            event = peer.next_event()
            version = getattr(event, "http_version", b"1.")
            if not version.startswith(b"1."):
                return None  # h11 takes any
            if isinstance(event, h11.Response):
                status = event.status_code
                fields = dict(event.headers)
                if not fields.keys() & {b"transfer-encoding", b"content-length"}:
                    return None
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                json_length = fields.get(b"inference-header-content-length", b"0")
                return None if peer.trailing_data[0] else (status, body, json_length)
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None


def _same_as_tritonclient(answer: Any, ours: Any) -> None:
    """Check that Triton's own client, where it can read the answer, reads the same values."""
    try:
        theirs = InferResult.from_response_body(answer.body, header_length=answer.head.json_length)
        arrays = {tensor.name: theirs.as_numpy(tensor.name) for tensor in OUTPUTS}
    # half a surrogate pair; `"parameters": true` of outputs not asked for, and `"parameters": []`, which says nothing
    except (ValueError, AttributeError):
        return
    for tensor in OUTPUTS:
        array = arrays[tensor.name]
        if array is not None:
            assert np.array_equal(array.astype(tensor.dtype), ours[tensor.name], equal_nan=True)


TARGETS = (Target("http_connection", CONNECTIONS, read_connection, examples=150),)
