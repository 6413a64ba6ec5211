"""All that servemark calls of TensorRT is in NVIDIA's own bindings, and takes what it is called with."""

import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from servemark.paths import CHECKOUT
from tools.tensorrt_bindings import faults

COMMAND = (sys.executable, "-m", "tools.tensorrt_bindings")


def test_tensorrt_rtx_has_all_of_it() -> None:
    assert not faults(pytest.importorskip("tensorrt_rtx_bindings"), rtx=True)


def test_what_is_missing_or_takes_something_else_is_named() -> None:
    rtx: Any = pytest.importorskip("tensorrt_rtx_bindings")
    changed = SimpleNamespace(**{name: getattr(rtx, name) for name in dir(rtx) if name != "OnnxParser"})
    taken = "deserialize_cuda_engine(self: Runtime, blob: bytes, *, device: int) -> ICudaEngine"
    changed.Runtime = SimpleNamespace(__init__=None, deserialize_cuda_engine=SimpleNamespace(__doc__=taken))
    found = faults(changed, rtx=True)
    assert found[0] == "OnnxParser is not there"
    assert found[1].startswith("Runtime.deserialize_cuda_engine takes [['blob'")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="empty libraries are made with gcc")
def test_the_installed_tensorrt_has_all_of_it() -> None:
    """A process of its own, because empty libraries would stay loaded."""
    done = subprocess.run(COMMAND, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "TensorRT 10.16.1.11: no faults\n"), done.stderr


@pytest.mark.peer
def test_so_have_the_oldest_and_the_newest() -> None:
    """Their wheels are downloaded."""
    versions = ("10.3.0", "11.4.0.106")
    done = subprocess.run([*COMMAND, *versions], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "".join(f"TensorRT {each}: no faults\n" for each in versions), done.stderr
