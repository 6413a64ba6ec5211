"""The longest answer holds every right one; gzip both ways: answers are what they were, and bombs are refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.sut.channel import ConnectionFailed
from loadgen.transport.limits import TooLarge, compress, decompress, max_message_bytes
from servemark.figures.registry import value_of
from servemark.workload import Tensor
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import Load, TargetLoad, target_at
from tests.golden.server import GoldenServer
from tests.support.load_config import of_server
from tests.support.result_checks import counted_result, run_here

BOTH = ("--request-compression", "gzip", "--response-compression", "gzip")
ZEROS = ("--input-data", "zero")
WORST = {"BOOL": False, "INT8": -128, "FP16": -1.2345678901234567e-300, "FP32": -1.2345678901234567e-300}


def sent_to(server: Any, *flags: str) -> tuple[Load, Any]:
    target = target_at(server.url, *flags)
    return TargetLoad(target, 4).closed(1, 0.1), target


@pytest.mark.parametrize("golden", [GoldenServer, GoldenGrpc])
@pytest.mark.parametrize("flags", [BOTH, BOTH[:2], BOTH[2:], (*BOTH, "--no-connection-reuse")])
def test_requests_and_answers_travel_compressed(golden: Any, flags: tuple[str, ...]) -> None:
    # grpcio answers with gzip whatever a client accepts.
    compresses = golden is GoldenServer or "--response-compression" in flags
    with golden(compresses=compresses) as server:
        load, target = sent_to(server, *flags, *ZEROS)
    assert load.kinds.keys() == {"ok"}, load.outcomes[0].message
    outcome, volume = load.outcomes[0], target.volume
    assert outcome.response is not None
    [array] = outcome.response.arrays(target._config.workload.outputs).values()
    np.testing.assert_array_equal(array, np.zeros((1, 64), "f4"))
    assert (volume.sent_bytes < volume.request_bytes) is ("--request-compression" in flags)
    asked = "--response-compression" in flags
    assert volume.answers == (len(load.outcomes) if asked else 0)
    assert (volume.received_bytes < volume.answer_bytes) is asked


def test_json_is_compressed_too() -> None:
    with GoldenServer(compresses=True, json_only=True) as server:
        load, target = sent_to(server, *BOTH)
    assert load.kinds.keys() == {"ok"}
    assert target.volume.answers == len(load.outcomes)


def test_an_answer_is_judged_by_what_it_holds() -> None:
    with GoldenServer(compresses=True, wrong_shape_every=2) as server:
        load, _ = sent_to(server, *BOTH)
    assert load.kinds.keys() == {"ok", "wrong_shape"}


def test_a_run_says_what_was_saved_and_that_a_server_does_not_compress(tmp_path: Path) -> None:
    flags = ["--duration", "0.5", "--warmup", "0.1", *BOTH[2:]]
    for compresses in (True, False):
        out = tmp_path / str(compresses)
        with GoldenServer(compresses=compresses) as server:
            _, text = run_here(of_server(server.url, *flags, "--out", str(out), model="golden"))
            received = server.requests()
        result = counted_result(out, len(received))
        assert value_of(result, "compression.compressed_answers") == (len(received) if compresses else 0)
        assert ("no answer came compressed" in text) is not compresses
        assert value_of(result, "compression.request_bytes") is None


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000), np.arange(5000).tobytes()])
def test_gzip_is_what_others_read_and_write(data: bytes) -> None:
    assert gzip.decompress(compress(data)) == data
    assert compress(data) == compress(data)
    assert decompress(gzip.compress(data), len(data)) == data


def test_a_bomb_takes_no_more_than_the_limit() -> None:
    with pytest.raises(TooLarge):
        decompress(gzip.compress(bytes(50_000_000)), 1000)


@pytest.mark.parametrize("data", [b"", b"plain", compress(b"abc")[:-1], compress(b"abc") + b"d"])
def test_what_is_not_one_gzip_is_a_failed_answer(data: bytes) -> None:
    with pytest.raises(ConnectionFailed) as failed:
        decompress(data, 100)
    assert failed.value.kind == "malformed_response"


@pytest.mark.parametrize("datatype", WORST)
def test_json_fits(datatype: str) -> None:
    text = json.dumps([WORST[datatype]] * 3000, separators=(",", ":"))
    tensors = [Tensor("y", datatype, (1000,))]
    assert len(text) < max_message_bytes(tensors, 3) < 40 * len(text) + (1 << 20)


def test_a_size_that_varies_counts_as_much_as_is_usual() -> None:
    varying, fixed = (max_message_bytes([Tensor("y", "FP32", (size, 29))], 2) for size in (-1, 4096))
    assert varying == fixed == 16 * 2 * 4096 * 29 * np.dtype("f4").itemsize + (1 << 20)
