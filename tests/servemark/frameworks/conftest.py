"""TensorRT and TensorRT-RTX, whose calls a double answers that is as strict."""

from collections.abc import Iterator

import pytest

from servemark.frameworks import tensorrt
from tests.doubles.tensorrt import FakeTensorRT


@pytest.fixture
def trt(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTensorRT]:
    fake = FakeTensorRT()
    fake.install(monkeypatch)
    tensorrt.logger.cache_clear()
    yield fake
    tensorrt.logger.cache_clear()
    tensorrt.MESSAGES.clear()
