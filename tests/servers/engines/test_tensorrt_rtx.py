"""TensorRT-RTX as an engine: its options and what a result says of it. The plan has tests of its own."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from servemark.errors import OptionError, ServerError
from servemark.frameworks.tensorrt import logger
from servemark.workload import Engine
from servers.engines import load_engine
from tests.doubles.tensorrt import COLUMNS, FakeTensorRT


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("servers.engines.tensorrt_rtx.check_device", lambda *_: None)  # the double's GPU is the host
    FakeTensorRT().install(monkeypatch)
    logger.cache_clear()
    yield
    logger.cache_clear()


def load(repository: Path, **options: str) -> Engine:
    artifact = repository / "twice_tensorrt_rtx" / "1" / "model.plan"
    artifact.parent.mkdir(parents=True, exist_ok=True)
    artifact.write_bytes(b"twice")
    return load_engine("tensorrt_rtx", artifact, inputs=["X"], outputs=["Y"], options=options)


@pytest.mark.parametrize(
    ("options", "provider"),
    [
        ({}, "TensorRT-RTX"),
        ({"cuda_graph": "true"}, "TensorRT-RTX with CUDA graphs"),
        ({"cuda_graph": "true", "runtime_cache": "false"}, "TensorRT-RTX with CUDA graphs and no runtime cache"),
    ],
)
def test_answers_and_says_how(tmp_path: Path, options: dict[str, str], provider: str) -> None:
    loaded = load(tmp_path, **options)
    assert (loaded.name, loaded.provider) == ("tensorrt_rtx", provider)
    x = np.ones((2, COLUMNS), np.float32)
    np.testing.assert_array_equal(loaded.run({"X": x})["Y"], 2 * x)
    assert (tmp_path / ".tensorrt_rtx").exists() is False  # until the plan is let go of
    del loaded
    assert (tmp_path / ".tensorrt_rtx").exists() is ("runtime_cache" not in options)


def test_an_option_that_is_neither_true_nor_false(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="runtime_cache is 'maybe'"):
        load(tmp_path, runtime_cache="maybe")


def test_a_cpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(ServerError, match="TensorRT-RTX runs on NVIDIA GPUs only, cpu was asked for"):
        load(tmp_path)
