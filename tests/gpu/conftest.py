"""Tests on a GPU: without one they are skipped with the reason; so are those of an engine that cannot use it here."""

from pathlib import Path

import pytest

from tools.gpu_session import unusable


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no CUDA device")


@pytest.fixture(autouse=True)
def usable(request: pytest.FixtureRequest) -> None:
    """Skip a test whose parameter `engine` cannot use the GPU."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    reason = unusable(parameters.get("engine", "pytorch"))
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")
