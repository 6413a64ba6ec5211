"""Weights of the user's for a workload's network: read without running code, checked by name and shape.

A repository remembers them, so that every engine of a workload is exported with the same ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from servemark.errors import ArtifactError, parsing
from servemark.repository.entry import digest

if TYPE_CHECKING:
    import torch
    from torch import nn

FOLDER = ".weights"
SEEDED = "seeded"
"""Instead of a file: back to the workload's own random weights."""
SHOWN = 8
"""Names that an error lists of each kind."""
_WRAPPERS = ("state_dict", "model_state_dict")
_COUNTER = "num_batches_tracked"
"""BatchNorm counts its training steps, which inference does not read; older files lack it."""


@dataclass(frozen=True)
class Weights:
    """A file of weights."""

    file: Path
    sha256: str

    @classmethod
    def of(cls, file: Path) -> Self:
        """Take a file. Raises ArtifactError where there is none."""
        if not file.is_file():
            raise ArtifactError(f"--weights {file}: no such file", fix="give a .safetensors file or a state_dict")
        return cls(file.absolute(), digest(file))

    @property
    def facts(self) -> dict[str, str]:
        """What an entry says of them."""
        return {"path": str(self.file), "sha256": self.sha256}

    def load_into(self, model: "nn.Module", workload: str) -> None:
        """Give a network these weights. Raises ArtifactError naming the tensors that do not fit."""
        given, own = _read(self.file), model.state_dict()
        problems = [
            ("missing", [name for name in own if name not in given and not name.endswith(_COUNTER)]),
            ("unexpected", [name for name in given if name not in own]),
            (
                "of another shape",
                [
                    f"{name} {list(given[name].shape)}, not {list(own[name].shape)}"
                    for name in own
                    if name in given and given[name].shape != own[name].shape
                ],
            ),
        ]
        if any(names for _, names in problems):
            words = "; ".join(f"{kind}: {_listed(names)}" for kind, names in problems if names)
            raise ArtifactError(
                f"{self.file} does not fit {workload}: {words}", fix=f"give a state_dict of {workload}'s own network"
            )
        model.load_state_dict(given, strict=False)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _read(file: Path) -> "Mapping[str, torch.Tensor]":
    """Read safetensors, or a state_dict. Raises ArtifactError: nothing but tensors is read."""
    import torch

    fix = "save them with safetensors.torch.save_file, or torch.save(model.state_dict(), FILE)"
    with parsing(file, ArtifactError, fix=fix):
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            found: Any = load_file(file)
        else:
            found = torch.load(file, map_location="cpu", weights_only=True)
        for wrapper in _WRAPPERS:
            if isinstance(found, Mapping) and isinstance(found.get(wrapper), Mapping):
                found = found[wrapper]
        if not isinstance(found, Mapping) or not found:
            raise TypeError(f"it holds a {type(found).__name__} and no tensors by name")
        other = [name for name, value in found.items() if not isinstance(value, torch.Tensor)]
        if other:
            raise TypeError(f"{other[0]!r} in it is no tensor")
    return dict(found)


def remembered(repository: Path, workload: str) -> Weights | None:
    """The weights that a repository's entries of a workload have. Raises ArtifactError where the file has changed."""
    note = repository / FOLDER / f"{workload}.json"
    if not note.is_file():
        return None
    fix = f"servemark export {workload} --weights FILE, or --weights {SEEDED} for the random ones"
    with parsing(note, ArtifactError, fix=fix):
        said = json.loads(note.read_text())
        file, sha256 = Path(said["path"]), str(said["sha256"])
    if not file.is_file() or digest(file) != sha256:
        raise ArtifactError(f"{workload} was exported with the weights {file}, which are not there or changed", fix=fix)
    return Weights(file, sha256)


def remember(repository: Path, workload: str, weights: Weights | None) -> None:
    """Have a repository remember the weights of a workload, or forget them."""
    note = repository / FOLDER / f"{workload}.json"
    if weights is None:
        note.unlink(missing_ok=True)
        return
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(weights.facts, indent=2) + "\n")
