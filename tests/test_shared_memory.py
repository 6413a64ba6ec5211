"""Tensors in system shared memory, against a real Triton: places of their own, right outputs, nothing left behind."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from loadgen.arrivals import ClosedLoop
from loadgen.channel import ConnectionFailed, Outcome
from loadgen.driver import Driver
from loadgen.kserve import Head
from loadgen.served import served
from loadgen.served_shared import ServedShared
from loadgen.shared_memory import FOLDER, OFFSET_DIGITS, PREFIX, Region, SharedChecker, SharedConnection, encoder, sweep
from loadgen.tcp import resolve
from servemark.errors import OptionError, ServerError
from servemark.models import Tensor, get
from servers import Server, embedded, open_server
from tests.load_config import config

WORKLOAD = "ncf_tiny"
real = pytest.mark.skipif(embedded.missing() is not None, reason=f"{embedded.missing()}")


@pytest.fixture(scope="module")
def server(exported: Any) -> Iterator[Server]:
    entry = exported(WORKLOAD, "onnxruntime")
    with open_server("embedded", entry.repository, [entry.model]) as triton:
        yield triton


def target(server: Server, exported: Any, *flags: str) -> ServedShared:
    repository = exported(WORKLOAD, "onnxruntime").repository
    load = config(WORKLOAD, "--host", f"http://{server.http}", "--shared-memory", "system", *flags)
    found = served(type(load)(**{**load.__dict__, "model_repository": repository}))
    assert isinstance(found, ServedShared)
    return found


def regions() -> list[Path]:
    return list(FOLDER.glob(f"{PREFIX}*"))


def registered(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = requests.get(f"http://{server.http}/v2/systemsharedmemory/status", timeout=5).json()
    return found


@real
def test_every_golden_answer_is_read_from_its_connections_place(server: Server, exported: Any) -> None:
    golden = exported(WORKLOAD, "onnxruntime").read_golden()
    under_test = target(server, exported, "--users", "4")
    under_test.prepare()
    outcomes: list[Outcome] = []
    try:
        stream = (payload for payload in under_test.payloads(golden) if payload.golden_rows)
        assert {region["name"].rpartition("_")[2] for region in registered(server)} == {"inputs", "outputs"}
        driver = Driver(
            under_test.connect,
            stream,
            timeout_s=10,
            max_in_flight=4,
            on_outcome=outcomes.append,
            on_tick=lambda _: None,
        )
        driver.run(ClosedLoop(4, lambda _now: len(outcomes) >= 200))
        driver.close()
    finally:
        under_test.close()
    assert {outcome.error for outcome in outcomes} == {None}
    rows = {outcome.payload.golden_rows for outcome in outcomes}
    assert len(rows) == golden.rows
    for outcome in outcomes:
        assert outcome.response is not None
        found: Any = outcome.response.arrays(get(WORKLOAD).outputs)["scores"]
        expected = golden.outputs["scores"][list(outcome.payload.golden_rows)]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert regions() == []
    assert registered(server) == []


@real
def test_triton_says_why_it_cannot_map_a_region(server: Server, exported: Any) -> None:
    under_test = target(server, exported)
    with pytest.raises(ServerError, match=r"(?s)register answered \d+: .*nowhere.*--shared-memory none"):
        under_test._ask("nowhere/register", {"key": "/nowhere", "offset": 0, "byte_size": 64})


def test_a_run_that_was_killed_leaves_memory_that_the_next_one_takes_away() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    left, ours = FOLDER / f"{PREFIX}{ended.pid}_inputs", Region("mine")
    left.write_bytes(b"x")
    try:
        sweep()
        assert not left.exists()
        assert (FOLDER / ours.name).exists()
    finally:
        ours.close()
        left.unlink(missing_ok=True)


def test_a_region_grows_and_keeps_what_is_in_it() -> None:
    region = Region("grows")
    try:
        offsets = [region.append(bytes([number]) * (100 + number)) for number in range(20)]
        assert all(offset % 64 == 0 for offset in offsets)
        assert [region.read(offset, 100 + n) for n, offset in enumerate(offsets)] == [
            bytes([n]) * (100 + n) for n in range(20)
        ]
        with pytest.raises(ServerError, match="no shared memory"):
            Region("grows")
    finally:
        region.close()


def test_a_request_has_one_length_wherever_its_outputs_lie() -> None:
    inputs, outputs = Region("in"), Region("out")
    places: list[dict[str, int]] = [{"a": 0, "b": 64}, {"a": 10 ** (OFFSET_DIGITS - 1), "b": 128}]
    try:
        encode = encoder("h", "m", inputs, outputs, {"a": 8, "b": 4}, {"x": "FP32"})
        made = encode({"x": np.ones((1, 3), np.float32)})
        checker = SharedChecker([Tensor("a", "FP32", (2,)), Tensor("b", "INT32", (1,))], 1)
        sent = []
        for _ in range(2):
            connection = SharedConnection(resolve("http://127.0.0.1:9"), checker, outputs, places)
            with contextlib.suppress(ConnectionFailed):  # what counts is the place it has taken
                connection.open()
            sent.append(connection.request(made))
        assert places == []
        lengths = {len(request) for request in sent}
        assert len(lengths) == 1
        head, _, body = sent[0].partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        document = json.loads(body)
        assert [o["parameters"]["shared_memory_offset"] for o in document["outputs"]] == [
            10 ** (OFFSET_DIGITS - 1),
            128,
        ]
        assert inputs.read(document["inputs"][0]["parameters"]["shared_memory_offset"], 12) == b"\0\0\x80?" * 3
    finally:
        inputs.close()
        outputs.close()


def test_a_closed_connection_gives_its_place_back() -> None:
    region = Region("back")
    free = [{"a": 0}]
    try:
        connection = SharedConnection(resolve("http://127.0.0.1:9"), SharedChecker([], 1), region, free)
        for _ in range(3):
            with contextlib.suppress(ConnectionFailed):
                connection.open()
            assert free == []
            connection.close()
            assert free == [{"a": 0}]
    finally:
        region.close()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"outputs":[{"name":"a","datatype":"FP32","shape":[1,2]}]}', None),
        (b'{"outputs":[{"name":"a","datatype":"FP32","shape":[2,2]}]}', "wrong_shape"),
        (b'{"outputs":[{"name":"a","datatype":"INT32","shape":[1,2]}]}', "wrong_datatype"),
        (b'{"outputs":[]}', "missing_output"),
        (b'{"outputs":[', "malformed_response"),
    ],
)
def test_answers_are_judged_by_what_they_say_of_their_outputs(body: bytes, error: str | None) -> None:
    checker = SharedChecker([Tensor("a", "FP32", (2,))], 1)
    head = Head(200, len(body), None, True)
    assert [checker.judge(head, body) for _ in range(2)] == [error, error]
    assert checker.judge(Head(500, 0, None, True), b"") == "http_500"


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(OptionError, match="another machine"):
        served(config(WORKLOAD, "--host", "http://192.0.2.1:8000", "--shared-memory", "system")).prepare()
    with pytest.raises(OptionError, match="sizes that vary"):
        served(config("deepspeech2_tiny", "--host", "http://127.0.0.1:9", "--shared-memory", "system")).prepare()
    with pytest.raises(OptionError, match="over HTTP only"):
        config(WORKLOAD, "--protocol", "grpc", "--shared-memory", "system")
