"""Trained weights for a workload's network: read without running code, checked by name and shape.

The zoo brings some (`servemark/models/trained/`), and `--weights` gives others. A repository remembers which it was
asked for, so that every engine of a workload is exported with the same ones.
"""

import contextlib
import json
import pickle
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from servemark import models
from servemark.errors import ArtifactError, parsing
from servemark.output import printable
from servemark.repository.entry import digest

if TYPE_CHECKING:
    import torch
    from torch import nn

FOLDER = ".weights"
TRAINED = Path(str(models.__file__)).parent / "trained"
SEEDED = "seeded"
"""Instead of a file: back to the workload's own random weights."""
SHOWN, MAX_NAME = 8, 200
"""Names that an error lists of each kind, and characters that it shows of one."""
SAFETENSORS = ".safetensors"
_PICKLED, _ZIPPED = b"\x80", b"PK"
"""First bytes of files that torch.save wrote: before version 1.6, and since."""
_FIX = "save them with safetensors.torch.save_file, or torch.save(model.state_dict(), FILE)"
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
        """Facts of the weights that an entry records; the zoo's own have no path, because checkouts differ in it."""
        return {"path": self.file.name if self.of_the_zoo else str(self.file), "sha256": self.sha256}

    @property
    def of_the_zoo(self) -> bool:
        """True if the zoo brings them."""
        return self.file.parent == TRAINED

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
            (
                "not usable",
                [
                    f"{name} ({reason})"
                    for name in own
                    if name in given and (reason := _unusable(given[name], own[name])) is not None
                ],
            ),
        ]
        if any(names for _, names in problems):
            words = "; ".join(f"{kind}: {_listed(names)}" for kind, names in problems if names)
            raise ArtifactError(
                f"{self.file} does not fit {workload}: {words}",
                fix=f"give a state_dict of {workload}'s own network, in floating point",
            )
        model.load_state_dict(given, strict=False)


def _listed(names: Sequence[str]) -> str:
    """The first of a file's names, without what would steer a terminal."""
    more = len(names) - SHOWN
    return ", ".join(printable(name[:MAX_NAME]) for name in names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _unusable(value: "torch.Tensor", own: "torch.Tensor") -> str | None:
    """The reason why a tensor cannot stand for the network's own, None where it can."""
    import torch

    kind, wanted = (str(each.dtype).removeprefix("torch.") for each in (value, own))
    if value.layout != torch.strided or value.is_meta:
        return "sparse or without values"
    if value.is_quantized or value.is_complex() or value.is_floating_point() != own.is_floating_point():
        return f"{kind}, not {wanted}"
    if value.is_floating_point() and value.element_size() == 1:
        return f"{kind}, whose scale is not in it"
    # A mask of the network's own may hold infinity.
    known = not own.isfinite().all() or bool(value.to(own.dtype).isfinite().all())
    return None if known else "NaN or infinite"


def _read(file: Path) -> "Mapping[str, torch.Tensor]":
    """Read safetensors, or a state_dict. Raises ArtifactError: nothing but tensors is read."""
    import torch

    found = _parsed(file)
    for wrapper in _WRAPPERS:
        if isinstance(found, Mapping) and isinstance(found.get(wrapper), Mapping):
            found = found[wrapper]
    if not isinstance(found, Mapping) or not found:
        raise _unreadable(file, f"it holds a {type(found).__name__} and no tensors by name")
    for name, value in found.items():
        if not isinstance(name, str):
            raise _unreadable(file, f"its tensors are named by {type(name).__name__}, not by text")
        if not isinstance(value, torch.Tensor):
            raise _unreadable(file, f"{printable(name[:MAX_NAME])!r} in it is not a tensor")
    return dict(found)


def _parsed(file: Path) -> Any:
    """Read a file. Raises ArtifactError with its own message, because torch's advises to run the file's code."""
    import torch

    try:
        if file.suffix == SAFETENSORS:
            from safetensors.torch import load_file

            return load_file(file)
        with warnings.catch_warnings(action="ignore"):
            return torch.load(file, map_location="cpu", weights_only=True)
    except PermissionError:
        raise _unreadable(file, "permission denied") from None
    except Exception as error:
        raise _unreadable(file, _reason(file, error)) from None


def _unreadable(file: Path, reason: str) -> ArtifactError:
    return ArtifactError(f"{file} cannot be read: {reason}", fix=_FIX)


def _reason(file: Path, error: Exception) -> str:
    if not file.stat().st_size:
        return "it is empty"
    if file.suffix == SAFETENSORS:
        return "it is not a safetensors file, or a damaged one"
    with file.open("rb") as content:
        head = content.read(len(_ZIPPED))
    if zipfile.is_zipfile(file):  # by its end alone: what stands before may be damaged in any way
        with contextlib.suppress(Exception), zipfile.ZipFile(file) as archive:
            if any(Path(name).name == "constants.pkl" for name in archive.namelist()):
                return "it is a TorchScript archive, which holds code"
    if head == _ZIPPED or head.startswith(_PICKLED):
        if isinstance(error, pickle.UnpicklingError):
            return "it holds Python objects beside tensors, such as a whole module; reading them could run code"
        return "it is damaged"
    return "it is neither safetensors nor what torch.save writes"


def remembered(repository: Path, workload: str) -> Weights | None:
    """Return the weights that a repository was asked for, else the zoo's own, for a workload; None: random ones.

    Raises ArtifactError where the file has changed.
    """
    note, own = repository / FOLDER / f"{workload}.json", TRAINED / f"{workload}.safetensors"
    if not note.is_file():
        return Weights.of(own) if own.is_file() else None
    fix = f"servemark export {workload} --weights FILE, or --weights {SEEDED} for the random ones"
    with parsing(note, ArtifactError, fix=fix):
        said = json.loads(note.read_text())
        if said["path"] == SEEDED:
            return None
        file, sha256 = Path(said["path"]), str(said["sha256"])
    if not file.is_file() or digest(file) != sha256:
        raise ArtifactError(f"{workload} was exported with the weights {file}, which are not there or changed", fix=fix)
    return Weights(file, sha256)


def remember(repository: Path, workload: str, weights: Weights | None) -> None:
    """Have a repository remember the weights that it was asked for, None for random ones; the zoo's need no note."""
    note = repository / FOLDER / f"{workload}.json"
    if weights and weights.of_the_zoo:
        note.unlink(missing_ok=True)
        return
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(weights.facts if weights else {"path": SEEDED}, indent=2) + "\n")
