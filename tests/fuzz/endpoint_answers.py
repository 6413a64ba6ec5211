"""Answers of servers with another JSON API, and files that describe one."""

import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loadgen.endpoints.endpoint import AnswerForm, endpoint_of
from loadgen.endpoints.messages import AnswerChecker
from loadgen.kserve.http_connection import Connection
from loadgen.transport.tcp import Address
from servemark.errors import ServemarkError
from servemark.workload import Tensor
from tests.fuzz.damage import ODD_VALUES, damaged
from tests.fuzz.http_answers import REQUEST, render
from tests.fuzz.target import Target
from tests.fuzz.wire import check_conversation, converse

OUTPUTS = (Tensor("A", "FP32", (3,)), Tensor("B", "BYTES", (-1,)))
POINTERS = AnswerForm(outputs={"A": "/predictions/*/A", "B": "/predictions/*/B"})
WAYS = (AnswerForm(rows="/predictions"), POINTERS)
WORDS = (b"[[", b"]]", b",", b"1.2.3", b"1e999", b"-", b"null", b'{"b64":"AA="}', b"[" * 600, b"1" * 400, b"NaN", b"*")


def right(strings: int = 2) -> dict[str, Any]:
    """The document of a right answer."""
    return {"predictions": [{"A": [1.5, -2, 3e4], "B": ["x"] * strings}]}


@st.composite
def answers(draw: DrawFn) -> bytes:
    """Answers that are framed well; what they say may be odd."""
    document = right(draw(st.sampled_from((2, 0, 1, 7))))
    if draw(st.booleans()):
        document["predictions"][0][draw(st.sampled_from("AB"))] = draw(ODD_VALUES)
    if draw(st.integers(0, 4)) == 0:
        document["predictions"] = draw(ODD_VALUES)
    return render(draw(st.sampled_from((200, 200, 500))), json.dumps(document).encode(), None)


PRIMER = render(200, json.dumps(right()).encode(), None)


def connecting(way: AnswerForm) -> Callable[[Address], Connection]:
    """Return what opens connections that share a checker."""
    checker = AnswerChecker(OUTPUTS, 1, way)
    return lambda address: Connection(address, checker)


def read_answers(data: bytes) -> None:
    """Answers whose values are read, and those of which only the form is looked at, also after a right one."""
    for way in WAYS:
        check_conversation(connecting(way), REQUEST, OUTPUTS, data, (0,))
        first, *_ = converse(connecting(way), REQUEST, [PRIMER, data])
        assert first.kind is None


def read_description(data: bytes) -> None:
    """Any file is an endpoint, or it is refused with words."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "endpoint.json"
        file.write_bytes(data)
        with contextlib.suppress(ServemarkError):
            endpoint_of(str(file))


@st.composite
def descriptions(draw: DrawFn) -> bytes:
    """Files that are nearly right."""
    pointers = st.sampled_from(("", "/a", "/a/*/b", "a", "/~1"))
    request: dict[str, Any] = {"path": draw(st.sampled_from(("/p", "p", "/p q"))), "body": draw(ODD_VALUES)}
    answer: dict[str, Any] = {
        draw(st.sampled_from(("rows", "row", "outputs", "x"))): draw(st.one_of(pointers, ODD_VALUES))
    }
    return json.dumps({"about": "", "request": request, "answer": answer}).encode()


TARGETS = (
    Target("endpoint_answers", damaged(answers(), WORDS), read_answers, examples=100),
    Target("endpoint_files", damaged(descriptions(), WORDS), read_description, examples=100),
)
