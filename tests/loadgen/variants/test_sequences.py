"""Sequences: what each request says, in which order a server sees them, and what is counted of them."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from loadgen.kserve.grpc_call import PREFIX_BYTES
from loadgen.kserve.grpc_connection import GrpcConnection, GrpcStream
from loadgen.kserve.grpc_messages import parse
from loadgen.kserve.http_messages import encode_request
from loadgen.sut.channel import Outcome, Payload
from loadgen.variants.sequences import (
    InSequence,
    SequenceRecorder,
    Sequences,
    carrying,
    reserved_http,
    stamp_grpc,
    stamp_http,
)
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import constant_ns, tensor
from tests.support.grpc_load import GrpcLoad

LENGTH, FIRST_ID = 4, 70


@pytest.fixture(scope="module")
def server() -> Iterator[GoldenGrpc]:
    with GoldenGrpc(delay_s=0.002) as server:
        yield server


def channels(kind: type, length: int = LENGTH) -> type:
    """A class of channels with sequences of their own."""
    found: type = carrying(kind, Sequences(length, FIRST_ID, stamp_grpc))
    return found


@pytest.mark.parametrize(("number", "own"), [(1, {}), (2**63 - 1, {"max_tokens": 5})])
def test_a_request_over_http_has_room_for_any_id(number: int, own: dict[str, object]) -> None:
    array = np.arange(64, dtype="f4").reshape(1, 64)
    plain = encode_request("h", "m", {"INPUT0": array}, [tensor(64)], {"INPUT0": "FP32"}, parameters=own)
    request = reserved_http(plain)
    stamped = stamp_http(request, number, first=True, last=False)
    head, _, body = stamped.partition(b"\r\n\r\n")
    fields = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
    assert int(fields["Content-Length"]) == len(body)
    text = body[: int(fields["Inference-Header-Content-Length"])]
    assert body[len(text) :] == array.tobytes()
    said = json.loads(text)
    assert said["parameters"] == {"sequence_id": number, "sequence_start": True, "sequence_end": False, **own}
    assert [tensor["name"] for tensor in said["inputs"]] == ["INPUT0"]


def test_a_request_over_grpc_stays_what_it_was() -> None:
    plain = next(GrpcLoad(0).payloads()).request
    stamped = stamp_grpc(plain, 5, first=False, last=True)
    before, after = (parse("ModelInferRequest", request[PREFIX_BYTES:]) for request in (plain, stamped))
    assert int.from_bytes(stamped[1:PREFIX_BYTES], "big") == len(stamped) - PREFIX_BYTES
    said = {each.key: each.value for each in after.parameters}
    assert said.keys() == {"sequence_id", "sequence_end"}  # a flag that is false is left out
    assert said["sequence_id"].int64_param == 5
    assert said["sequence_end"].bool_param
    del after.parameters[:]
    assert after == before


@pytest.mark.parametrize("kind", [GrpcConnection, GrpcStream])
def test_a_server_sees_each_sequence_whole_and_in_order(kind: type, server: GoldenGrpc) -> None:
    before = len(server.log()["sequences"])
    load = GrpcLoad(server.port, streaming=kind is GrpcStream, kind=channels(kind)).closed(3, 0.3)
    seen = server.log()["sequences"][before:]
    assert load.kinds == {"ok": len(seen)}
    sequences: dict[int, list[tuple[bool, bool]]] = {}
    for number, first, last in seen:
        sequences.setdefault(number, []).append((first, last))
    assert sorted(sequences) == [*range(FIRST_ID, FIRST_ID + len(sequences))]
    whole = [(place == 0, place == LENGTH - 1) for place in range(LENGTH)]
    assert all(found == whole[: len(found)] for found in sequences.values())
    assert sum(len(found) < LENGTH for found in sequences.values()) <= 3
    assert LENGTH in map(len, sequences.values())


def test_lengths_vary_evenly_within_their_share_and_are_the_same_for_a_seed() -> None:
    def lengths(seed: int) -> list[int]:
        shared = Sequences(20, FIRST_ID, stamp_grpc, variation=0.25, seed=seed)
        return [shared.begin()[1] for _ in range(2000)]

    assert lengths(1) == lengths(1) != lengths(2)
    assert {*lengths(1)} == {*range(15, 26)}
    assert abs(np.mean(lengths(1)) - 20) < 0.5


def test_a_server_sees_sequences_of_varied_lengths_end(server: GoldenGrpc) -> None:
    kind: type = carrying(GrpcConnection, Sequences(4, FIRST_ID, stamp_grpc, variation=0.5, seed=3))
    before = len(server.log()["sequences"])
    GrpcLoad(server.port, kind=kind).closed(2, 0.5)
    ended: dict[int, int] = {}
    whole = []
    for number, _, last in server.log()["sequences"][before:]:
        ended[number] = ended.get(number, 0) + 1
        whole += [ended[number]] if last else []
    assert {*whole} <= {2, 3, 4, 5, 6}
    assert len({*whole}) > 1


def test_arrivals_go_to_the_sequences_in_turn(server: GoldenGrpc) -> None:
    load = GrpcLoad(server.port, kind=channels(GrpcConnection, 100), max_in_flight=5, connect=5, in_turn=True)
    load.open(constant_ns(100, 40))
    numbers = [outcome.payload.sequence for outcome in load.good if isinstance(outcome.payload, InSequence)]
    assert len(numbers) == 40
    # The channel that was used last would take nearly all of them.
    assert min(numbers.count(number) for number in range(FIRST_ID, FIRST_ID + 5)) >= 3


def test_a_request_before_the_load_is_a_sequence_of_its_own(server: GoldenGrpc) -> None:
    """It leaves nothing open, and the load has its id again."""
    before = len(server.log()["sequences"])
    load = GrpcLoad(server.port, kind=channels(GrpcConnection), max_in_flight=1)
    load.requests = iter([replace(next(load.payloads()), alone=True), *itertools.islice(load.payloads(), 1)])
    load.open(constant_ns(100, 2))
    assert server.log()["sequences"][before:] == [[FIRST_ID, True, True], [FIRST_ID, True, False]]
    assert load.kinds == {"ok": 2}


def test_a_failed_request_ends_its_sequence() -> None:
    with GoldenGrpc(error_every=6) as server:
        load = GrpcLoad(server.port, kind=channels(GrpcConnection), max_in_flight=1).open(constant_ns(1000, 13))
        seen = server.log()["sequences"]
    # The first one is whole; of the second the second request fails, which is the sixth of all.
    assert seen[4:8] == [[71, True, False], [71, False, False], [72, True, False], [72, False, False]]
    assert load.kinds["grpc_unavailable"] == len(seen) // 6


def test_the_figures_are_of_whole_sequences() -> None:
    recorder = SequenceRecorder(2, 1)

    def tell(begun: int, done: int, *, last: bool, error: str | None = None) -> None:
        payload = InSequence(b"", sequence=1, last=last, begun=begun)
        recorder.take(Outcome(payload, begun, begun, done, error, "", None))

    tell(5, 8, last=False)
    tell(5, 12, last=True)  # begun before the interval, ended in it
    tell(20, 30, last=True)
    tell(30, 60, last=True)  # ended after it
    tell(40, 45, last=False, error="timeout")
    recorder.take(Outcome(Payload(b""), 20, 20, 20, None, "", None))
    recorder.flush(10, 50)
    assert (recorder.completed, recorder.broken, recorder.duration.count) == (2, 1, 2)
    assert (recorder.duration.min_ns, recorder.duration.max_ns) == (10, 30)
    recorder.flush(10, 50)
    assert recorder.completed == 2
