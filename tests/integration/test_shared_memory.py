"""Tensors in system shared memory, against a real Triton: right outputs over each protocol, nothing left behind."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.kserve.control import Control
from loadgen.targets.open import open_target
from loadgen.targets.shared_region import FOLDER
from loadgen.targets.shared_slots import ALIGNMENT
from servemark.errors import OptionError, ServerError
from servemark.figures.registry import count_of, value_of
from servers import Server, open_server
from tests.golden.grpc import GoldenGrpc
from tests.golden.server import GoldenServer
from tests.support.load_config import config
from tests.support.locust_run import DEADLINE_S, command, run, started, the_result, until
from tests.support.shared_load import (
    IDENTITY,
    PASSTHROUGH,
    TOTAL,
    WIRES,
    answers,
    batches,
    drive,
    host,
    outputs,
    target,
)
from tests.support.small_models import passthrough, total
from tests.support.triton import IDENTITY_LOCUSTFILE, copy_identity, needs_triton

wires = pytest.mark.parametrize("wire", WIRES)
ENDS_WITHIN_S = 10.0
POOL = 32
"""Distinct requests prepared ahead: more than are sent here."""


@pytest.fixture(autouse=True)
def _few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadgen.targets.payloads.POOL_REQUESTS", POOL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("model_repo")
    models = [passthrough(repository), total(repository), copy_identity(repository)]
    with open_server("embedded", repository, models) as triton:
        yield triton


def registered(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Control(f"http://{server.http}").ask("/v2/systemsharedmemory/status").body)
    return found


@needs_triton
@wires
@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_are_those_of_inline_tensors_bit_for_bit(server: Server, wire: str, batch: int) -> None:
    shared = outputs(server, PASSTHROUGH, wire, "system", batch)
    assert shared == outputs(server, PASSTHROUGH, wire, "none", batch)
    for number, inputs in enumerate(batches(PASSTHROUGH, batch, 20)):
        for name, array in inputs.items():
            assert shared[number][f"OUT{name.removeprefix('IN')}"] == (array.dtype.str, array.shape, array.tobytes())
    assert registered(server) == []


@needs_triton
@wires
def test_inputs_of_sizes_that_vary(server: Server, wire: str) -> None:
    found = outputs(server, TOTAL, wire, "system", 2)
    inputs = [arrays["X"] for arrays in batches(TOTAL, 2, 20)]
    assert len({array.shape for array in inputs}) > 5
    for number, array in enumerate(inputs):
        assert found[number]["TOTAL"] == ("<f4", (2, 1), array.sum(axis=1, keepdims=True).astype("f4").tobytes())


@needs_triton
@wires
def test_memory_is_registered_once_and_given_back(server: Server, wire: str) -> None:
    with closing(target(server, PASSTHROUGH, wire, "system")) as under_test:
        under_test.prepare()
        under_test.payloads(None)
        [region] = registered(server)
        assert (FOLDER / region["name"]).stat().st_size == region["byte_size"]
        # Every input has a place of its own, and each connection one for its outputs.
        sizes = [ALIGNMENT * -(-6 * tensor.dtype.itemsize // ALIGNMENT) for tensor in PASSTHROUGH.inputs]
        assert region["byte_size"] == sum(sizes) * (POOL + 4)
    under_test.close()
    assert registered(server) == []
    assert not (FOLDER / region["name"]).exists()


@needs_triton
@wires
def test_triton_says_why_it_cannot_map_a_region(
    server: Server, wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where the server has a /dev/shm of its own: on another machine, in a container.
    monkeypatch.setattr("loadgen.targets.shared_region.FOLDER", tmp_path)
    with (
        closing(target(server, PASSTHROUGH, wire, "system")) as under_test,
        pytest.raises(ServerError, match=r"(?s)Register|register.*Unable to open.*--shared-memory none.*--ipc=host"),
    ):
        drive(under_test)
    assert list(tmp_path.iterdir()) == []


def flags(server: Server, wire: str, out: Path, duration: str) -> list[str]:
    load = [*WIRES[wire], "--url", host(server, wire), "--shared-memory", "system", "--model-name", "identity"]
    return [*load, "--concurrency", "2", "--warmup", "0", "--duration", duration, "--out", str(out)]


@needs_triton
@pytest.mark.parametrize(("number", "after_s"), [(signal.SIGINT, 0.0), (signal.SIGTERM, 0.5)], ids=str)
def test_ctrl_c_leaves_nothing(number: signal.Signals, after_s: float, server: Server, tmp_path: Path) -> None:
    with started(command(IDENTITY_LOCUSTFILE, *flags(server, "grpc", tmp_path, "60")), tmp_path / "log") as process:
        [region] = until(lambda: registered(server), "a registered region")
        time.sleep(after_s)
        process.send_signal(number)
        process.wait(ENDS_WITHIN_S)
    assert registered(server) == []
    assert not (FOLDER / region["name"]).exists()


@needs_triton
def test_what_a_killed_run_leaves_is_taken_away_by_the_next(server: Server, tmp_path: Path) -> None:
    with started(
        command(IDENTITY_LOCUSTFILE, *flags(server, "http", tmp_path / "killed", "60")), tmp_path / "log"
    ) as process:
        [left] = until(lambda: registered(server), "a registered region")
        process.kill()
        process.wait(DEADLINE_S)
    assert [region["name"] for region in registered(server)] == [left["name"]]
    assert (FOLDER / left["name"]).exists()
    done = run(IDENTITY_LOCUSTFILE, *flags(server, "streaming", tmp_path / "next", "0.5"))
    result = the_result(tmp_path / "next")
    assert (result["protocol"], result["shared_memory"], result["resolved"]["streaming"]) == ("grpc", "system", True)
    assert value_of(result, "errors.count") == 0, done.stderr
    assert count_of(result, "requests.answered") > 0
    assert registered(server) == []
    assert not (FOLDER / left["name"]).exists()


def to_golden(url: str) -> list[str]:
    return ["--url", url, "--shared-memory", "system", "--model-name", "golden", "--concurrency", "4"]


def test_a_server_without_the_extension() -> None:
    with (
        GoldenGrpc(shared_memory=False) as golden,
        closing(open_target(config("golden", *to_golden(golden.url), lookup=lambda _: IDENTITY))) as under_test,
        pytest.raises(ServerError, match=r"(?s)SystemSharedMemoryRegister: grpc_unimplemented.*none"),
    ):
        drive(under_test)


def test_a_request_that_failed_gives_its_place_back() -> None:
    with GoldenServer(error_every=3, reset_every=7) as golden:
        with closing(open_target(config("golden", *to_golden(golden.url), lookup=lambda _: IDENTITY))) as under_test:
            outcomes = drive(under_test)
        assert len(golden.requests()) == len(outcomes)
    assert {outcome.error for outcome in outcomes} == {None, "http_500", "connection_reset"}
    found = answers([outcome for outcome in outcomes if outcome.error is None], IDENTITY.outputs)
    inputs = batches(IDENTITY, 1, 20)
    assert found
    for number, arrays in found.items():
        np.testing.assert_array_equal(np.frombuffer(arrays["OUTPUT0"][2], "f4"), inputs[number]["INPUT0"][0])


def test_outputs_of_sizes_that_vary_are_refused() -> None:
    load = config("deepspeech2_tiny", "--url", "http://127.0.0.1:9", "--shared-memory", "system")
    with pytest.raises(OptionError, match="sizes that vary"):
        open_target(load).prepare()
