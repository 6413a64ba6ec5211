"""Faults over HTTP/2 and gRPC: wrong frames, floods, newer messages, absurd statuses."""

import contextlib
from collections.abc import Callable

from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)

from loadgen.kserve.grpc_call import enclose
from tests.faults.answers import ANY, EVERY
from tests.faults.generator import Rig
from tests.faults.raw_grpc import Caller, GrpcFront, good
from tests.faults.registry import Expected, Seen, fault
from tests.support.http2_peer import answer

WRONG = Expected(kinds=("malformed_response",))
HOW = "raw HTTP/2 server, every 10th request"
Bad = Callable[[Caller, int], None]


def now_and_then(rig: Rig, bad: Bad) -> Seen:
    """A run over gRPC whose every tenth request is answered badly."""

    def infer(caller: Caller, stream: int, number: int) -> None:
        good(caller, stream) if number % EVERY else bad(caller, stream)

    with GrpcFront(infer) as front:
        return rig.run(front.url, "--request-timeout", "2", received=front.received)


@fault(6, "garbage-h2", "bytes that are no HTTP/2", HOW, WRONG)
def _garbage(rig: Rig) -> Seen:
    return now_and_then(rig, lambda caller, _: caller.socket.sendall(bytes(range(256)) * 8))


@fault(9, "interim-h2", "103 before each answer", "raw HTTP/2 server", Expected(codes=ANY))
def _interim(rig: Rig) -> Seen:
    def infer(caller: Caller, stream: int, _number: int) -> None:
        caller.send(HeadersFrame(stream, caller.fields((":status", "103")), flags=["END_HEADERS"]))
        good(caller, stream)

    with GrpcFront(infer) as front:
        return rig.run(front.url, received=front.received)


@fault(11, "rst", "RST_STREAM instead of an answer", HOW, Expected(kinds=None))
def _rst(rig: Rig) -> Seen:
    seen = now_and_then(rig, lambda caller, stream: caller.send(RstStreamFrame(stream, error_code=11)))
    if len(seen.kinds) != 1:
        seen.troubles.append(f"kinds {dict(seen.kinds)}")
    return seen


@fault(11, "goaway", "GOAWAY, and no answer", HOW, Expected(kinds=("connection_closed",), also=("connection_reset",)))
def _goaway(rig: Rig) -> Seen:
    def bad(caller: Caller, _stream: int) -> None:
        caller.send(GoAwayFrame(0, last_stream_id=0, error_code=2, additional_data=b"restarting"))
        raise EOFError

    return now_and_then(rig, bad)


@fault(11, "push", "a pushed answer", HOW, WRONG)
def _push(rig: Rig) -> Seen:
    def bad(caller: Caller, stream: int) -> None:
        caller.send(PushPromiseFrame(stream, 2, caller.fields((":path", "/")), flags=["END_HEADERS"]))

    return now_and_then(rig, bad)


@fault(11, "window", "a window opened beyond its bound", HOW, WRONG)
def _window(rig: Rig) -> Seen:
    def bad(caller: Caller, stream: int) -> None:
        caller.send(*[WindowUpdateFrame(stream, window_increment=(1 << 31) - 1)] * 2)

    return now_and_then(rig, bad)


@fault(11, "cut-headers", "a header block that never ends", HOW, Expected(kinds=("timeout",)))
def _cut_headers(rig: Rig) -> Seen:
    return now_and_then(
        rig, lambda caller, stream: caller.send(HeadersFrame(stream, caller.fields((":status", "200"))))
    )


def _flood(pieces: int, piece: Callable[[Caller, int], bytes], *, first: bool) -> Bad:
    """Send the same again and again, after a right answer where there is a `first`."""

    def bad(caller: Caller, stream: int) -> None:
        if first:
            good(caller, stream)
        frames = piece(caller, stream)
        with contextlib.suppress(OSError):
            for _ in range(pieces):
                caller.socket.sendall(frames)
        raise EOFError

    return bad


FLOODED = Expected(codes=ANY, kinds=None)


def _flooded(rig: Rig, bad: Bad, *kinds: str) -> Seen:
    seen = now_and_then(rig, bad)
    seen.received = None  # a request that comes while the server sends is read by nobody
    seen.troubles += [f"also {kind}" for kind in seen.kinds.keys() - set(kinds)]
    return seen


@fault(12, "pings", "a flood of PING whose answers nobody reads", HOW, FLOODED)
def _pings(rig: Rig) -> Seen:
    pings = PingFrame(0, b"12345678").serialize() * 10_000
    bad = _flood(5_000, lambda *_: pings, first=True)
    return _flooded(rig, bad, "malformed_response", "timeout", "connection_closed", "connection_reset")


@fault(12, "data", "DATA on a stream that is over, 4 GiB", HOW, FLOODED)
def _data(rig: Rig) -> Seen:
    bad = _flood(4 << 10, lambda _, stream: DataFrame(stream, bytes(1 << 14)).serialize() * 64, first=True)
    return _flooded(rig, bad, "malformed_response", "connection_closed", "connection_reset")


@fault(12, "message", "a message of 2 GiB", HOW, Expected(kinds=("too_large",)))
def _message(rig: Rig) -> Seen:
    def bad(caller: Caller, stream: int) -> None:
        caller.send(caller.head(stream), DataFrame(stream, b"\0\x7f\xff\xff\xff"))
        _flood(2 << 10, lambda *_: DataFrame(stream, bytes(1 << 14)).serialize() * 64, first=False)(caller, stream)

    return now_and_then(rig, bad)


@fault(12, "continuations", "a header block of CONTINUATION frames without an end", HOW, WRONG)
def _continuations(rig: Rig) -> Seen:
    def bad(caller: Caller, stream: int) -> None:
        caller.send(HeadersFrame(stream, caller.fields((":status", "200"))))
        _flood(1 << 14, lambda *_: ContinuationFrame(stream, bytes(1 << 13)).serialize() * 8, first=False)(
            caller, stream
        )

    return now_and_then(rig, bad)


for _bits, _tag in ((32, b"\xa5\x06"), (64, b"\xa1\x06")):

    @fault(13, f"fixed{_bits}", f"a right answer with an unknown field of {_bits} bits",
           "raw HTTP/2 server, each answer", Expected(codes=ANY))  # fmt: skip
    def _newer(rig: Rig, bits: int = _bits, tag: bytes = _tag) -> Seen:
        message = enclose(answer()[5:] + tag + b"\xff" * (bits // 8))
        with GrpcFront(lambda caller, stream, _: caller.send(*caller.whole(stream, message))) as front:
            return rig.run(front.url, received=front.received)


for _name, _status in (("status-digits", "1" * 5_000), ("status-words", "evil,\\n0,0,0,")):

    @fault(13, _name, f"`grpc-status: {_status[:12]}...`, {len(_status)} characters", HOW,
           Expected(kinds=("grpc_status_other",)))  # fmt: skip
    def _status_of(rig: Rig, status: str = _status) -> Seen:
        def bad(caller: Caller, stream: int) -> None:
            block = caller.fields((":status", "200"), ("grpc-status", status))
            caller.send(HeadersFrame(stream, block, flags=["END_HEADERS", "END_STREAM"]))

        return now_and_then(rig, bad)
