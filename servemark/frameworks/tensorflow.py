"""TensorFlow, imported without its greetings and in an order that other packages survive."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType


def import_tensorflow() -> ModuleType:
    """Import TensorFlow. Raises ImportError.

    OpenAI's triton, which torch imports when it exports, and TensorFlow each bring an LLVM: with triton second, LLVM
    ends the process. Triton first does no harm, so it is imported where it is installed.
    """
    if "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        with contextlib.suppress(ImportError):
            importlib.import_module("triton._C.libtriton")
        with _stderr_closed():
            tensorflow = importlib.import_module("tensorflow")
        tensorflow.get_logger().setLevel("ERROR")
    return sys.modules["tensorflow"]


@contextlib.contextmanager
def _stderr_closed() -> Iterator[None]:
    """Drop what C++ writes to stderr: before its logging is set up, TensorFlow asks no variable what to leave out."""
    sys.stderr.flush()
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
