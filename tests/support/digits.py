"""A small MNIST in its official layout, a server's known answers to it, and commands that score them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.results import directory
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.command_line import Done, Servemark
from tests.support.locust_run import server_of

NAME = "spatial_transformer"
COUNT, RIGHT = 20, 15


def idx(array: npt.NDArray[np.uint8]) -> bytes:
    """An IDX file."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_digits(root: Path, count: int = COUNT, split: str = "t10k") -> npt.NDArray[np.uint8]:
    """Lay out `root`/mnist with so many different digits, whose labels are returned."""
    folder = root / "mnist"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(rng.integers(0, 256, (count, 28, 28)).astype(np.uint8)))
    (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx(labels))
    return labels


def write_answers(root: Path, path: Path, right: int) -> None:
    """Answers of a model that knows the first so many digits, and takes the others for the next class."""
    workload = get("spatial_transformer")
    assert workload.labelled is not None
    digits = workload.labelled(root / "mnist")
    examples = [digits.example(index) for index in range(digits.size)]
    scores = np.full((digits.size, 10), -9, np.float32)
    for index, example in enumerate(examples):
        scores[index, example.label if index < right else (example.label + 1) % 10] = -0.1
    images = np.stack([example.requests[0]["image"] for example in examples])
    theta = np.zeros((digits.size, 2, 3), np.float32)
    np.savez(path, **{"input:image": images, "output:logprobs": scores, "output:theta": theta})


def lay_out(root: Path) -> Path:
    """A root with small MNIST, and the answers of a model that knows three quarters of it."""
    write_digits(root)
    write_answers(root, root / "answers.npz", RIGHT)
    return root


def served(data: Path, **behaviour: Any) -> GoldenServer:
    """A golden server that is this model."""
    return server_of(get(NAME), answers=str(data / "answers.npz"), **behaviour)


@dataclass
class Scoring:
    """A command over labelled data at a server, by default this one; its results lie in `out`, or below it."""

    servemark: Servemark
    data: Path
    out: Path
    server: GoldenServer
    name: str = NAME

    def __call__(self, *more: str, command: str = "quality", at: GoldenServer | None = None, below: str = "") -> Done:
        out = self.out / below  # where no repository has the model
        places = ["--data-root", str(self.data), "--out", str(out), "--model-repository", str(out / "none")]
        return self.servemark(command, self.name, "-u", (at or self.server).url, *places, *more)

    def cut_short(self, **changes: Any) -> Path:
        """Mark the only run of `quality` as partial, with other changes; its folder."""
        [folder] = self.out.glob("*-quality")
        directory.write(folder, directory.read(folder) | {"partial": True} | changes)
        return folder
