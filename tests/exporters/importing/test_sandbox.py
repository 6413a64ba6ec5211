"""The process that reads and runs a foreign file: what it can reach, what it answers, and that it ends."""

import fcntl
import functools
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from exporters.importing import sandbox
from exporters.importing.model import import_model
from exporters.importing.model_file import Wishes
from exporters.importing.sandbox import run_sandboxed
from loadgen.inputs.sources import random_samples
from servemark.documents.request import Inputs
from servemark.errors import ArtifactError, InputDataError
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.repository.entry import read_golden
from servemark.workload import Workload
from servemark.workload.imported import GOLDEN, MODELS
from tests.exporters.importing.test_saved_model import saved
from tests.support.own_models import dense, from_x_to_y

FILE = Path("model.onnx")
LEFT_S = 60
"""Time for which a process that is left behind would live."""


def run(tmp_path: Path, work: Callable[..., Any], *arguments: object) -> Any:
    """Let a process apart read a folder and write in another."""
    (tmp_path / "model").mkdir(exist_ok=True)
    (tmp_path / "scratch").mkdir()
    return run_sandboxed(FILE, [tmp_path / "model"], [], tmp_path / "scratch", functools.partial(work, *arguments))


def tries(folder: Path, port: int, seal: Callable[[], None]) -> dict[str, Any]:
    """Try the attacks of an exploited runtime."""
    attempts: dict[str, Callable[[], object]] = {
        "read the model": (folder / "model" / "weights").read_bytes,
        "write in scratch": lambda: (folder / "scratch" / "own").write_text(""),
        "read elsewhere": (folder / "secret").read_bytes,
        "list elsewhere": lambda: list(folder.iterdir()),
        "write elsewhere": lambda: (folder / "written").write_text(""),
        "write beside the model": lambda: (folder / "model" / "written").write_text(""),
        "remove elsewhere": (folder / "secret").unlink,
        "link into scratch": lambda: os.link(folder / "secret", folder / "scratch" / "secret"),
        "connect": lambda: socket.create_connection(("127.0.0.1", port), 5).close(),
        "kill the parent": lambda: os.kill(os.getppid(), 0),
    }
    done = [name for name, attempt in attempts.items() if _succeeds(attempt)]
    seal()
    after = [name for name, attempt in attempts.items() if _succeeds(attempt)]
    return {"done": done, "after": after}


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def test_it_reaches_the_model_and_its_scratch_folder_alone(tmp_path: Path) -> None:
    """The attack: code of a foreign file's runs in the runtime. Sealed, it does not even see the model's folder."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("weights")
    with socket.create_server(("127.0.0.1", 0)) as server:
        heard = run(tmp_path, tries, tmp_path, server.getsockname()[1])
    if heard["open"]:
        pytest.skip(f"this system cannot close {heard['open']}")
    assert set(heard["done"]) - {"kill the parent"} == {"read the model", "write in scratch"}
    assert set(heard["after"]) - {"kill the parent"} == {"write in scratch"}
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "written").exists()


def refuses(seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001 - the work's interface
    raise InputDataError("the data are odd", fix="others")


def fails(seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001
    raise ZeroDivisionError


def dies(seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001
    os.write(2, b"bad \x1b[2J alloc")
    os.abort()


def lasts(seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001
    while True:
        time.sleep(1)


def swaps(seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001
    """Put pipes, which nobody writes, in the place of what the parent reads."""
    os.write(2, b"x" * sandbox.MAX_WORDS + b" the end")
    for name in (sandbox.WORDS, sandbox.ANSWER):
        path = Path(os.environ["HOME"], name)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    os._exit(3)


def forks(lock: Path, seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001
    """Leave a process behind, which holds a lock for as long as it lives."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if os.fork() == 0:
        time.sleep(LEFT_S)
        os._exit(0)
    return {}


def eats(seal: Callable[[], None]) -> dict[str, Any]:  # noqa: ARG001
    return {"size": len(bytearray(1 << 50))}


@pytest.mark.parametrize(
    ("work", "kind", "said"),
    [
        (refuses, InputDataError, "the data are odd"),
        (fails, RuntimeError, r"in the process that imported model\.onnx:\n.*ZeroDivisionError"),
        (dies, ArtifactError, r"ended with signal SIGABRT: bad \\x1b\[2J alloc"),
        (swaps, ArtifactError, "ended with code 3: x{292} the end\n"),
        (eats, ArtifactError, "the model needs more memory than the"),
    ],
)
def test_errors_come_back_by_name(tmp_path: Path, work: Callable[..., Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=f"(?s){said}"):
        run(tmp_path, work)


def test_what_has_no_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "LIMIT_S", 0.5)
    with pytest.raises(ArtifactError, match=r"it was not read and run within 0\.00833333 minutes"):
        run(tmp_path, lasts)


def test_what_it_leaves_behind_is_ended(tmp_path: Path) -> None:
    lock, begun = tmp_path / "scratch" / "lock", time.monotonic()
    run(tmp_path, forks, lock)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert time.monotonic() - begun < LEFT_S


def drawn(workload: Workload, ranges: Any) -> Any:
    return random_samples(workload.inputs, Inputs(input_range=dict(ranges)), np.random.default_rng(0))


def test_a_model_is_imported_by_a_process_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS, str(tmp_path / "models"))
    report = import_model(dense(tmp_path / "m" / "dense.onnx"), "mine", tmp_path / "models", Wishes(drawn))
    assert (report.workload.name, report.workload.parameters) == ("mine", 24)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["mine"]


def endless(path: Path) -> Path:
    """A loop of 2^63 rounds, each of which adds."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("Add", ["held", "held"], ["next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("held", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("Constant", [], ["most"], value=helper.make_tensor("m", TensorProto.INT64, [], [2**63 - 1])),
        helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("b", TensorProto.BOOL, [], [True])),
        helper.make_node("Loop", ["most", "yes", "x"], ["y"], body=body),
    ]
    return from_x_to_y(path, nodes, (1, 6))


def huge(path: Path) -> Path:
    """An answer of 2^56 bytes."""
    size = helper.make_tensor("s", TensorProto.INT64, [2], [1 << 27, 1 << 27])
    nodes = [
        helper.make_node("Constant", [], ["sizes"], value=size),
        helper.make_node("ReduceSum", ["x"], ["one"], keepdims=1),
        helper.make_node("Expand", ["one", "sizes"], ["wide"]),
        helper.make_node("ReduceSum", ["wide"], ["y"], keepdims=1),
    ]
    return from_x_to_y(path, nodes, (1, 6), (1, 1))


def circle(path: Path) -> Path:
    """A node that takes what it gives."""
    nodes = [helper.make_node("Add", ["x", "y"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    return from_x_to_y(path, nodes, (1, 6))


@pytest.mark.parametrize(
    ("make", "limit_s", "said"),
    [
        (endless, 4.0, "it was not read and run within"),
        (huge, 60.0, "cannot be imported"),
        (circle, 60.0, "onnxruntime cannot load it"),
    ],
)
def test_hostile_graphs_are_errors_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path], limit_s: float, said: str
) -> None:
    monkeypatch.setenv(MODELS, str(tmp_path / "models"))
    monkeypatch.setattr(sandbox, "LIMIT_S", limit_s)
    with pytest.raises(ArtifactError, match=said):
        import_model(make(tmp_path / "m.onnx"), "mine", tmp_path / "models", Wishes(drawn))
    assert list((tmp_path / "models").iterdir()) == []


def test_tensorflow_runs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS, str(tmp_path / "models"))
    tf: Any = import_tensorflow()
    weight = tf.Variable(2.0)
    path = saved(tmp_path / "m", lambda x: {"y": x * weight}, weight=weight)
    report = import_model(path, "mine", tmp_path / "models", Wishes(drawn))
    golden = read_golden(tmp_path / "models" / "mine" / GOLDEN, fix="")
    y, x = (each.astype(np.float32) for each in (golden.outputs["y"], golden.inputs["x"]))
    np.testing.assert_allclose(y, x * 2)
    assert report.one_at_a_time is None
