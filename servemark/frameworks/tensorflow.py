"""TensorFlow, imported without its greetings, and a SavedModel's tensors under names that it takes.

TensorFlow takes no `x:0`, `self` or `input.1`, so such a tensor has a name of ours. The names of the workload's file
are kept beside the graph, in `assets.extra`, TensorFlow's folder for what others add.
"""

import contextlib
import importlib
import json
import keyword
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar


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


FILE = Path("assets.extra") / "tensor_names.json"
T = TypeVar("T")


@dataclass(frozen=True)
class TensorNames:
    """The file's names of inputs and outputs -> the signature's."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    def fed(self, arrays: Mapping[str, T]) -> dict[str, T]:
        """Return inputs by the signature's names."""
        return {self.inputs.get(name, name): array for name, array in arrays.items()}

    def answered(self, arrays: Mapping[str, T]) -> dict[str, T]:
        """Return outputs by the file's names."""
        theirs = {ours: name for name, ours in self.outputs.items()}
        return {theirs.get(name, name): array for name, array in arrays.items()}

    def input_names(self, ours: Iterable[str]) -> list[str]:
        """Return the file's names of a signature's inputs."""
        theirs = {name: each for each, name in self.inputs.items()}
        return [theirs.get(name, name) for name in ours]

    def write(self, artifact: Path) -> None:
        """Keep the names with a SavedModel."""
        (artifact / FILE).parent.mkdir(parents=True, exist_ok=True)
        (artifact / FILE).write_text(json.dumps({"inputs": self.inputs, "outputs": self.outputs}, indent=2) + "\n")


def signature_names(inputs: Iterable[str], outputs: Iterable[str]) -> TensorNames:
    """Name the tensors of a signature: as in the file where TensorFlow takes that, else `input_0`, `output_1`."""
    return TensorNames(_ours(list(inputs), "input"), _ours(list(outputs), "output"))


def names_of(artifact: Path) -> TensorNames:
    """Read the names that are kept with a SavedModel; one of another maker has the signature's.

    Raises ValueError where they are damaged.
    """
    if not (artifact / FILE).is_file():
        return TensorNames({}, {})
    kept = json.loads((artifact / FILE).read_text())
    try:
        return TensorNames(dict(kept["inputs"]), dict(kept["outputs"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{FILE} has no names of inputs and outputs") from error


def _ours(names: list[str], kind: str) -> dict[str, str]:
    plain = {name for name in names if _is_plain(name) and [each.lower() for each in names].count(name.lower()) == 1}
    found: dict[str, str] = {}
    for name in names:
        number = len(found)
        while name not in plain and f"{kind}_{number}" in {*plain, *found.values()}:
            number += 1
        found[name] = name if name in plain else f"{kind}_{number}"
    return found


def _is_plain(name: str) -> bool:
    """Return True if TensorFlow takes the name as it is: one of a Python argument, which `self` is already."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_" and name != "self"
