"""Layers are traced and timed in this process; tests/kernels/tracing tests that a process of its own does so."""

from collections.abc import Iterator

import pytest

from tests.support.in_process import call_here


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    call_here(monkeypatch)
    yield
    torch.set_num_threads(threads)
