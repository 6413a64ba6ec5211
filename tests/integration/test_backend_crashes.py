"""Failures inside a real Triton's backend: failed requests in its words, INVALID, and a clean next run."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from loadgen.evaluation.measured_run import record
from loadgen.measurement.measurement import Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.sender import Sender
from loadgen.targets.http import HttpTarget
from servemark.errors import ServerError
from servemark.figures.registry import count_of, value_of
from servemark.repository.entry import Entry, Golden
from servemark.workload import Sample, Tensor, Workload
from servers import Server, open_server
from tests.support.any_workload import any_workload
from tests.support.load_config import config
from tests.support.result_checks import constraint
from tests.support.small_models import TABLE, lookup
from tests.support.triton import START_S, triton_only

pytestmark = triton_only

OUTSIDE = 99
"""An ID that the table does not have: onnxruntime raises for it."""
UNHEALTHY = "HTTP 500: Stub process 'lookup_onnxruntime_0_0' is not healthy."
TRITON_ENDED = {"connection_closed", "connection_reset", "connection_refused"}
"""Triton ends with the killed process, once in hundreds: the two share memory, which was then being written to."""


def workload(ids: list[int]) -> Workload:
    """The look-up model, asked for these IDs in turn."""

    def samples(_: np.random.Generator) -> Iterator[Sample]:
        while True:
            yield from ({"ID": np.array([number])} for number in ids)

    tensors = [Tensor("ID", "INT64", (1,))], [Tensor("ROW", "FP32", (3,))]
    return any_workload(*tensors, name="lookup", samples=samples, served=False)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model_repo")
    lookup(root)
    Entry(root, "lookup", "onnxruntime").write_golden(Golden({"ID": np.arange(4).reshape(4, 1)}, {"ROW": TABLE}))
    return root


def serve(repository: Path) -> Server:
    return open_server("embedded", repository, ["lookup_onnxruntime"], start_timeout_s=START_S)


def load(
    server: Server,
    repository: Path,
    ids: list[int],
    out: Path,
    *,
    seconds: float = 0.5,
    on_progress: Callable[[float, Recorder], None] = lambda *_: None,
) -> Any:
    """The result of a closed loop of four; `on_progress` is called every second with the seconds measured so far."""
    flags = ["--url", f"http://{server.http}", "--model-repository", str(repository), "--out", str(out)]
    flags += ["--concurrency", "4", "--warmup", "0.2", "--duration", str(seconds)]
    resolved = config("lookup", *flags, lookup=lambda _: workload(ids))
    target = HttpTarget(resolved)
    return record(Measurement(resolved, target, Sender(resolved, target), on_progress=on_progress))


def clean(result: dict[str, Any]) -> bool:
    """Return True if nothing failed and the answers are right."""
    checks = [constraint(result, name)["ok"] for name in ("error_rate", "server_alive", "output_agreement")]
    return all(checks) and value_of(result, "errors.count") == 0 and count_of(result, "requests.answered") > 10


def stubs() -> list[psutil.Process]:
    """The processes in which the embedded server's models run."""
    children = psutil.Process().children(recursive=True)
    return [p for p in children if p.name().startswith("triton_python_b") and p.status() != psutil.STATUS_ZOMBIE]


def test_an_engine_that_raises_fails_those_requests_alone_and_one_that_is_killed_the_run(
    repository: Path, tmp_path: Path
) -> None:
    """After either the next run is clean: of the same server, and of the next."""
    killed: list[int] = []

    def progress(elapsed_s: float, _: Recorder) -> None:
        if elapsed_s > 0 and not killed:
            killed.extend(process.pid for process in stubs())
            for process in stubs():
                process.kill()

    before = set(Path("/dev/shm").glob(f"servemark_{os.getpid()}_*"))
    with serve(repository) as server:
        assert clean(load(server, repository, [0, 1, 2, 3], tmp_path))
        result = load(server, repository, [0, 1, 2, OUTSIDE], tmp_path)
        errors = result["details"]["errors"]
        assert errors["by_kind"].keys() == {"http_500"}
        assert 0.15 < result["figures"]["errors.share"]["value"] < 0.35
        [message] = errors["messages"]["http_500"]
        assert "onnxruntime: " in message
        assert f"idx={OUTSIDE}" in message
        assert (result["verdict"]["valid"], result["verdict"]["exit_code"]) == (False, 2)
        assert not constraint(result, "error_rate")["ok"]
        assert constraint(result, "server_alive")["ok"]
        # The others were answered right meanwhile.
        assert constraint(result, "output_agreement")["ok"]
        assert clean(load(server, repository, [3, 2, 1, 0], tmp_path))
        result = load(server, repository, [0, 1, 2, 3], tmp_path, seconds=4, on_progress=progress)
        errors = result["details"]["errors"]
        assert len(killed) == 1
        assert count_of(result, "requests.answered") > 0
        assert (result["verdict"]["exit_code"], result["partial"]) == (2, False)
        alive = constraint(result, "server_alive")
        assert not alive["ok"]
        with pytest.raises(ServerError) as dead:
            load(server, repository, [0], tmp_path, seconds=0.5)
        if errors["by_kind"].keys() <= TRITON_ENDED:
            assert "no server answers" in dead.value.what
        else:
            # Triton never starts the process again, and still says that the model is ready. So no next run begins.
            assert errors["messages"] == {"backend_died": [UNHEALTHY]}
            assert f"backend_died: {UNHEALTHY}" in dead.value.what
            assert "restart the server" in alive["remedy"]
            assert "restart the server" in str(dead.value.fix)
    assert stubs() == []
    assert set(Path("/dev/shm").glob(f"servemark_{os.getpid()}_*")) == before
    with serve(repository) as server:
        assert clean(load(server, repository, [0, 1, 2, 3], tmp_path))
