"""`--headers FILE`: what is read, what is refused, and that no value is shown."""

from pathlib import Path

import pytest

from loadgen.kserve.grpc_call import Method
from loadgen.kserve.http_messages import request_head
from loadgen.targets.http import HttpTarget
from loadgen.transport.access import Access, read_headers
from loadgen.transport.http1_head import HEAD_END
from loadgen.transport.http2_frames import FieldDecoder
from servemark.errors import OptionError
from tests.support.load_config import config

VALUE = "s3cret-t0ken"
FIELDS = (("authorization", f"Bearer {VALUE}"), ("x-team", "load: a"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headers"
    path.write_text(f"Authorization: Bearer {VALUE}\r\n\n  \nX-Team:load: a  \n")
    return path


def test_names_and_values(file: Path) -> None:
    assert read_headers(file) == FIELDS


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (VALUE, "there is no colon"),
        (f"two words: {VALUE}", "not a valid field name"),
        (f": {VALUE}", "not a valid field name"),
        (f":path: {VALUE}", "not a valid field name"),
        (f"Content-Length: {VALUE}", "content-length is not for --headers"),
        (f"HOST: {VALUE}", "host is not for --headers"),
        (f"te: {VALUE}", "te is not for --headers"),
        (f"Content-Type: {VALUE}", "content-type is not for --headers"),
        (f"Inference-Header-Content-Length: {VALUE}", "inference-header-content-length is not for --headers"),
        (f"Transfer-Encoding: {VALUE}", "transfer-encoding is not for --headers"),
        (f"grpc-timeout: {VALUE}", "grpc-timeout is not for --headers"),
        (f"x-team: {VALUE}", "x-team is there twice"),
        (f"x: a\x00{VALUE}", "control characters"),
        ("x:", "empty"),
    ],
)
def test_a_line_that_cannot_be_sent_is_named_without_its_value(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "headers"
    path.write_text(f"X-Team: a\n{line}\n")
    with pytest.raises(OptionError) as refused:
        read_headers(path)
    assert f"{path}, line 2: " in str(refused.value)
    assert words in str(refused.value)
    assert VALUE not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("x: é".encode(), "byte 3 is not ASCII"),
        (b"x: " + b"a" * 20_000, "more than 12288 bytes"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "headers"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError, match=words):
        read_headers(path)


def test_a_configuration_knows_them_and_shows_their_names(file: Path) -> None:
    found = config("ranking_tiny", "--headers", str(file))
    assert found.access.headers == FIELDS
    assert found.access.tls(found.url) is None
    assert HttpTarget(found).config["headers"] == ["authorization", "x-team"]
    assert VALUE not in repr(found) + str(found.access) + str(found.to_dict())


def test_they_are_in_a_request_s_head_once() -> None:
    head = request_head("h:1", "m", "", dict(FIELDS) | {"Content-Length": 7})
    lines = head.removesuffix(HEAD_END).decode().split("\r\n")
    assert lines[1:] == ["Host: h:1", f"authorization: Bearer {VALUE}", "x-team: load: a", "Content-Length: 7"]


def test_they_are_metadata_that_no_proxy_may_index() -> None:
    method = Method("/p", "h", lambda _: None, lambda *_: {}, lambda _: "", 1, scheme="https", metadata=FIELDS)
    fields = FieldDecoder().decode(method.block)
    assert fields.items() >= dict(FIELDS).items()
    assert fields[":scheme"] == "https"
    # RFC 7541, section 6.2.3: a literal never indexed with a new name; authorization has one in the static table (23).
    assert b"\x1f\x08" + bytes([len(FIELDS[0][1])]) + FIELDS[0][1].encode() in method.block
    assert b"\x10\x06x-team" in method.block


def test_a_server_that_repeats_a_secret() -> None:
    access = Access(headers=FIELDS)
    said = f"a server has no {VALUE} here, Bearer {VALUE}"
    assert access.redact(said) == "a server has no <authorization> here, <authorization>"
    cookies = Access(headers=(("cookie", "a=first-secret; b=second-secret"),))
    assert cookies.redact("no first-secret and no b=second-secret") == "no <cookie> and no b=<cookie>"
