"""Answers over HTTP that are late, cut, lying, endless, deep, or none."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Sequence

from servemark.results.verdict import Kind
from tests.faults.generator import LOCUST, SERVEMARK, Rig, workload_of
from tests.faults.raw_http import HEAD_END, Front, Mode, Proxy, reply, reset
from tests.faults.registry import INVALID, Expected, Seen, fault
from tests.golden.server import GoldenServer

EVERY = 10
"""One answer in so many is a bad one."""
ANY = (0, INVALID)
"""A run so short, on a busy machine, may be too unsteady to be VALID without any fault."""
PIECE = bytes(1 << 20)
DEEP = b"[" * 200_000
OBJECTS = b'{"a":' * 100_000
ERROR = "500 Internal Server Error"
Bad = Callable[[socket.socket, bytes], bytes]
"""Gets a connection and the right answer, and returns what is sent; nothing where the connection is over."""


def now_and_then(
    rig: Rig, bad: Bad, *, every: int = EVERY, command: Sequence[str] = LOCUST, counted: bool = True
) -> Seen:
    """A run to whose every tenth request a bad answer comes; none is lost, and none counted twice."""

    def answer(connection: socket.socket, number: int) -> bytes:
        return front.good if number % every else bad(connection, front.good)

    with Front(answer, workload=workload_of(command)) as front:
        return rig.run(front.url, command=command, received=front.received if counted else None)


def nearly_always(rig: Rig, bad: Callable[[int], bytes]) -> Seen:
    """A run to nine of whose ten requests a bad answer comes, made of the request's number."""
    with Front(lambda _, number: bad(number) if number % EVERY != 1 else front.good) as front:
        return rig.run(front.url, "--concurrency", "16", "--duration", "4", received=front.received)


def golden(rig: Rig, *flags: str, **behaviour: float) -> Seen:
    """A run against the golden server, whose log counts the requests."""
    with GoldenServer(**behaviour) as server:
        return rig.run(server.url, *flags, received=lambda: len(server.requests()))


def through(rig: Rig, mode: Mode, *flags: str) -> Seen:
    """A run through the proxy, which is itself once the control plane has been asked."""
    with GoldenServer() as server, Proxy(server.port) as proxy:

        def begin(_: object) -> None:
            time.sleep(0.7)
            proxy.mode = mode

        return rig.run(
            f"http://127.0.0.1:{proxy.port}",
            *flags,
            loaded=lambda: len(server.requests()) > EVERY,
            during=begin,
        )


@fault(2, "reset", "the server resets connections", "golden server, every 10th request",
       Expected(kinds=("connection_reset",)))  # fmt: skip
def _reset(rig: Rig) -> Seen:
    return golden(rig, reset_every=EVERY)


@fault(2, "truncate", "a connection closes in the middle of an answer", "golden server, every 10th request",
       Expected(kinds=("connection_closed",)))  # fmt: skip
def _truncate(rig: Rig) -> Seen:
    return golden(rig, truncate_every=EVERY)


@fault(2, "cut", "answers are cut by RST on their way", "proxy before the golden server",
       Expected(kinds=("connection_reset",), also=("connection_closed", "timeout"),
                may_fail=(Kind.SERVER_ALIVE,)))  # fmt: skip
def _cut(rig: Rig) -> Seen:
    return through(rig, "reset")


for _other in ("model", "version"):

    @fault(36, f"other-{_other}", f"answers name another {_other}", "golden server, every 10th request",
           Expected(kinds=(f"wrong_{_other}",)))  # fmt: skip
    def _other_name(rig: Rig, other: str = _other) -> Seen:
        return golden(rig, **{f"other_{other}_every": EVERY})


@fault(3, "silence", "requests are never answered", "golden server, every 10th request", Expected(kinds=("timeout",)))
def _silence(rig: Rig) -> Seen:
    return golden(rig, "--request-timeout", "0.3", never_every=EVERY)


@fault(3, "swallow", "no answer comes through any more", "proxy before the golden server",
       Expected(kinds=("timeout",), fails=Kind.SERVER_ALIVE))  # fmt: skip
def _swallow(rig: Rig) -> Seen:
    return through(rig, "swallow", "--request-timeout", "0.3")


@fault(4, "slow", "answers come in ten pieces over 0.1 s", "golden server, every 10th request", Expected(codes=ANY))
def _slow(rig: Rig) -> Seen:
    return golden(rig, slow_every=EVERY, slow_s=0.1)


@fault(4, "delay", "each piece of an answer is 50 ms late", "proxy before the golden server", Expected(codes=ANY))
def _delay(rig: Rig) -> Seen:
    return through(rig, "delay")


@fault(6, "garbage", "bytes that are no HTTP", "raw server, every 10th request",
       Expected(kinds=("malformed_response",)))  # fmt: skip
def _garbage(rig: Rig) -> Seen:
    return now_and_then(rig, lambda *_: b"SSH-2.0-OpenSSH_9.6\r\n\r\n" + bytes(range(256)))


def _announced(length: str) -> Bad:
    def bad(connection: socket.socket, _good: bytes) -> bytes:
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}".encode() + HEAD_END + bytes(100))
        time.sleep(0.01)
        return bytes(100)

    return bad


for _length, _kind in (
    ("10000000000000000000", "malformed_response"),
    ("68719476736", "too_large"),
    ("1000000000000000", "too_large"),
):

    @fault(7, f"length-{_length}", f"`Content-Length: {_length}`", "raw server, every 10th answer, in two pieces",
           Expected(kinds=(_kind,)))  # fmt: skip
    def _length_lies(rig: Rig, length: str = _length) -> Seen:
        return now_and_then(rig, _announced(length))


@fault(7, "length-run", "`Content-Length: 10000000000000000000` to `servemark run`", "raw server, every 10th answer",
       Expected(kinds=("malformed_response",)))  # fmt: skip
def _length_lies_to_servemark(rig: Rig) -> Seen:
    return now_and_then(rig, _announced("10000000000000000000"), command=SERVEMARK)


@fault(7, "length-short", "a body longer than its Content-Length", "raw server, every 10th answer",
       Expected(kinds=("malformed_response",), also=("wrong_shape", "http_200", "malformed_tensors")))  # fmt: skip
def _length_short(rig: Rig) -> Seen:
    return now_and_then(rig, lambda *_: reply(b"{}") + b"more than was announced")


def _endless(head: bytes, piece: bytes) -> Bad:
    def bad(connection: socket.socket, _good: bytes) -> bytes:
        connection.sendall(head)
        with contextlib.suppress(OSError):
            for _ in range(4 << 10):
                connection.sendall(piece)
        return b""

    return bad


@fault(8, "head", "a head without an end", "raw server, every 10th answer", Expected(kinds=("malformed_response",)))
def _endless_head(rig: Rig) -> Seen:
    return now_and_then(rig, _endless(b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"))


@fault(8, "body", "a body of 4 GiB, announced and sent", "raw server, every 10th answer",
       Expected(kinds=("too_large",)))  # fmt: skip
def _endless_body(rig: Rig) -> Seen:
    return now_and_then(rig, _endless(f"HTTP/1.1 200 OK\r\nContent-Length: {4 << 30}".encode() + HEAD_END, PIECE))


@fault(8, "unasked", "4 GiB that nobody asked for follow an answer", "raw server, every 10th answer",
       Expected(codes=ANY, kinds=None))  # fmt: skip
def _unasked(rig: Rig) -> Seen:
    # A request that comes while the server sends is read by nobody: the server cannot count.
    seen = now_and_then(rig, lambda connection, good: _endless(good, PIECE)(connection, good), counted=False)
    # What comes together with the answer spoils it; what comes later spoils the connection alone.
    others = seen.kinds.keys() - {"malformed_response", "connection_closed", "connection_reset"}
    seen.troubles += [f"also {kind}" for kind in others]
    return seen


@fault(9, "interim", "103 and 100 before each answer", "raw server", Expected(codes=ANY))
def _interim(rig: Rig) -> Seen:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    return now_and_then(rig, lambda _, good: interim + good, every=1)


@fault(10, "deep", "200 with 200 kB of `[`", "raw server, every 10th answer",
       Expected(kinds=("malformed_response",)))  # fmt: skip
def _deep(rig: Rig) -> Seen:
    return now_and_then(rig, lambda *_: reply(DEEP))


for _name, _body in (("deep-error", DEEP), ("deep-objects", OBJECTS)):

    @fault(10, _name, f"500 with {len(_body) // 1000} kB of `{_body[:5].decode()}`", "raw server, every 10th answer",
           Expected(kinds=("http_500",)))  # fmt: skip
    def _deep_error(rig: Rig, body: bytes = _body) -> Seen:
        return now_and_then(rig, lambda *_: reply(body, status=ERROR))


@fault(25, "words", "each failure has other words, as of a gateway with its request's number",
       "raw server, every answer but one in ten is a 503",
       Expected(kinds=("http_503",)))  # fmt: skip
def _words(rig: Rig) -> Seen:
    def bad(number: int) -> bytes:
        message = json.dumps({"error": f"request {number:032x} cannot be served"}).encode()
        return reply(message, status="503 Unavailable")

    seen = nearly_always(rig, bad)
    if seen.result and len(seen.result["details"]["errors"]["messages"]["http_503"]) > 5:
        seen.troubles.append("more than five messages kept")
    if (listed := seen.output.count("http_503: ")) > 30:
        seen.troubles.append(f"Locust lists {listed} different failures")
    return seen


@fault(25, "statuses", "each failure has another status", "raw server, every answer but one in ten",
       Expected(kinds=None))  # fmt: skip
def _statuses(rig: Rig) -> Seen:
    seen = nearly_always(rig, lambda number: reply(b"{}", status=f"{300 + number % 600} Strange"))
    if not 50 <= len(seen.kinds) <= 60 or not seen.kinds["other"]:
        seen.troubles.append(f"{len(seen.kinds)} kinds")
    return seen


@fault(26, "long-words", "an error message of 20 MB", "raw server, every 10th answer", Expected(kinds=None))
def _long_words(rig: Rig) -> Seen:
    message = json.dumps({"error": "x" * 20_000_000}).encode()
    seen = now_and_then(rig, lambda *_: reply(message, status=ERROR))
    seen.troubles += [f"also {kind}" for kind in seen.kinds.keys() - {"http_500", "too_large"}]
    if len(seen.output) > 100_000:
        seen.troubles.append(f"{len(seen.output)} characters of output")
    return seen


@fault(27, "surrogate", "a lone surrogate and terminal codes in an error's words", "raw server, every 10th answer",
       Expected(kinds=("http_500",)))  # fmt: skip
def _surrogate(rig: Rig) -> Seen:
    seen = now_and_then(rig, lambda *_: reply(rb'{"error":"bad \ud800 \u001b[2J\u001b]0;title\u0007"}', status=ERROR))
    if "\x1b[2J" in seen.output or "\x1b]0;" in seen.output:
        seen.troubles.append("terminal codes came out raw")
    return seen


@fault(28, "negative", "an output more, with a negative size", "raw server, every 10th answer",
       Expected(kinds=("malformed_response",), also=("wrong_outputs",)))  # fmt: skip
def _negative(rig: Rig) -> Seen:
    with Front() as front:
        header = json.loads(front.header)
        values = front.values
    extra = {"name": "MORE", "datatype": "FP32", "shape": [1, 1], "parameters": {"binary_data_size": -256}}
    header["outputs"].insert(0, extra)
    text = json.dumps(header).encode()
    return now_and_then(rig, lambda *_: reply(text + values, f"Inference-Header-Content-Length: {len(text)}"))


@fault(29, "one-shot", "a server that closes after each answer", "raw server", Expected(codes=ANY))
def _one_shot(rig: Rig) -> Seen:
    def close(connection: socket.socket, good: bytes) -> bytes:
        connection.sendall(good.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        return b""

    return now_and_then(rig, close, every=1)


@fault(30, "half", "half of the connections are reset at once, before a request is read", "raw server",
       Expected(kinds=("connection_reset",), also=("connection_closed",)))  # fmt: skip
def _half(rig: Rig) -> Seen:
    return now_and_then(rig, lambda connection, _: reset(connection), every=2)
