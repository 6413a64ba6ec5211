"""Layers are traced in this process: one of its own imports torch anew, and tests/kernels/tracing tests that."""

from collections.abc import Iterator

import pytest

from kernels.tracing.workload import trace


@pytest.fixture(autouse=True)
def _traced_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    monkeypatch.setattr("servemark.synthesis.run.trace_apart", trace)
    yield
    torch.set_num_threads(threads)
