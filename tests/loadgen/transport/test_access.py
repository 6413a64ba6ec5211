"""Header fields of the user's: which are read, refused and sent, each once, and that no value is shown."""

from pathlib import Path

import pytest

from loadgen.kserve.grpc_call import FieldDecoder, Method
from loadgen.kserve.http_messages import request_head
from loadgen.targets.http import HttpTarget
from loadgen.transport.access import Access, fault_of, lines_of, merged, read_headers
from loadgen.transport.http1_head import HEAD_END
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
        (f"Content-Length: {VALUE}", "content-length says how a message travels"),
        (f"HOST: {VALUE} x", "the value of host is not HOST or HOST:PORT"),
        (f"te: {VALUE}", "te says how a message travels"),
        (f"Content-Type: {VALUE}", "content-type says how a message travels"),
        (f"Inference-Header-Content-Length: {VALUE}", "inference-header-content-length says how a message travels"),
        (f"Transfer-Encoding: {VALUE}", "transfer-encoding says how a message travels"),
        (f"grpc-timeout: {VALUE}", "grpc-timeout says how a message travels"),
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
        ("a: b\nx: é".encode(), r"headers, line 2: the value of x .* other than ASCII"),
        ("a: b\nx: é".encode("latin-1"), r"headers: line 2: byte 0xe9 is not UTF-8\n.*iconv"),
        ("a: b".encode("utf-16"), r"headers: it is UTF-16, not UTF-8\n.*iconv -f UTF-16"),
        (b"x: " + b"a" * 20_000, "more than 12288 bytes"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "headers"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError, match=words):
        read_headers(path)


def test_a_byte_order_mark_is_not_a_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("\ufeffAuthorization: abc\n")
    assert read_headers(tmp_path / "headers") == (("authorization", "abc"),)


def test_a_host_takes_the_place_of_the_url_s(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Host: a.example.com\nX-Team: a\n")
    access = Access(headers=read_headers(tmp_path / "headers"))
    assert request_head("10.0.0.1:80", "/v2/models/m", dict(access.headers)).split(b"\r\n")[1:3] == [
        b"Host: a.example.com", b"x-team: a"
    ]  # fmt: skip
    method = Method("/p", "h:1", 1, metadata=access.headers)
    fields = FieldDecoder().decode(method.block)
    assert (fields[":authority"], "host" in fields) == ("a.example.com", False)
    assert access.redact("no route to a.example.com") == "no route to a.example.com"


def test_a_configuration_knows_them_and_shows_their_names(file: Path) -> None:
    found = config("ranking_tiny", "--headers", str(file))
    assert found.access.headers == FIELDS
    assert found.access.tls(found.url) is None
    assert HttpTarget(found).config["headers"] == ["authorization", "x-team"]
    assert VALUE not in repr(found) + str(found.access) + str(found.to_dict())


def test_they_are_in_a_request_s_head_once() -> None:
    head = request_head("h:1", "/v2/models/m", dict(FIELDS) | {"Content-Length": 7})
    lines = head.removesuffix(HEAD_END).decode().split("\r\n")
    assert lines[1:] == ["Host: h:1", f"authorization: Bearer {VALUE}", "x-team: load: a", "Content-Length: 7"]


def test_they_are_metadata_that_no_proxy_may_index() -> None:
    method = Method("/p", "h", 1, scheme="https", metadata=FIELDS)
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


@pytest.mark.parametrize("host", ["a.example.com", "a.example.com:8080", "10.0.0.1", "[::1]:80", "a-b_c.local"])
def test_a_host_may_be_given(host: str) -> None:
    assert fault_of("Host", host) is None


@pytest.mark.parametrize("host", ["http://a", "a/b", "a b", "a,b/", "u@h", "a:port", "a:123456"])
def test_what_is_not_a_host_is_refused(host: str) -> None:
    assert fault_of("Host", host) == "the value of host is not HOST or HOST:PORT"


def test_the_type_of_a_body_is_given_by_whose_body_it_is() -> None:
    assert fault_of("Content-Type", "text/plain") is not None
    assert fault_of("Content-Type", "text/plain", may_give_type=True) is None
    assert fault_of("Content-Length", "5", may_give_type=True) is not None


def test_a_name_is_the_same_in_any_case() -> None:
    assert merged({"A": 1, "B": 2}, {"a": 3}) == {"a": 3, "B": 2}
    assert lines_of("h:1", {"x": 1}) == ["Host: h:1", "x: 1"]
    assert lines_of("h:1", {"x": 1, "hOST": "a"}) == ["Host: a", "x: 1"]
