"""Where there is no GPU these tests are skipped and say why."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no CUDA device")
