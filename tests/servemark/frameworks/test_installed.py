"""The generator-only install is told apart from the full one."""

import importlib.util

import pytest

from servemark.frameworks import serves_here


def test_one_package_that_serves_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    there: set[str] = set()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)
    assert not serves_here()
    there.add("onnxruntime")
    assert serves_here()
