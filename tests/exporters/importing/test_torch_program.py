"""Description and import of torch.export programs."""

from pathlib import Path

import pytest
import torch
from torch import nn

from exporters.importing import torch_program
from servemark.errors import ArtifactError


class Pair(nn.Module):
    """Answers the sum and the product of two tensors."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + b, a * b


class Named(nn.Module):
    """Answers a dictionary."""

    def forward(self, a: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": a + 1}


class Half(nn.Module):
    """Answers nothing beside a tensor."""

    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, None]:
        return a + 1, None


class Times(nn.Module):
    """Takes a number beside a tensor."""

    def forward(self, a: torch.Tensor, factor: float) -> torch.Tensor:
        return a * factor


def saved(path: Path, model: nn.Module, *example: torch.Tensor, most: int = 16) -> Path:
    batch = torch.export.Dim("batch", max=most)
    torch.export.save(torch.export.export(model, example, dynamic_shapes=tuple({0: batch} for _ in example)), path)
    return path


def test_tensors_counts_and_the_largest_batch_are_read(tmp_path: Path) -> None:
    found = torch_program.describe(saved(tmp_path / "linear.pt2", nn.Linear(6, 4).eval(), torch.zeros(2, 6)))
    assert [(port.datatype, port.sizes) for port in (*found.inputs, *found.outputs)] == [
        ("FP32", (-1, 6)),
        ("FP32", (-1, 4)),
    ]
    assert (found.parameters, found.max_batch) == (28, 16)
    assert found.flops({found.inputs[0].name: (1, 6)}) == 48
    pair = torch_program.describe(saved(tmp_path / "pair.pt2", Pair(), torch.zeros(2, 3), torch.zeros(2, 3)))
    assert [port.name for port in (*pair.inputs, *pair.outputs)] == ["a", "b", "output_0", "output_1"]


def test_what_is_no_program_of_tensors_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.pt2").write_text("no program")
    with pytest.raises(ArtifactError, match=r"it is not a torch\.export program"):
        torch_program.describe(tmp_path / "text.pt2")
    with pytest.raises(ArtifactError, match="something else than a tensor or a tuple"):
        torch_program.describe(saved(tmp_path / "named.pt2", Named(), torch.zeros(2, 3)))


@pytest.mark.parametrize(
    ("model", "example", "said"), [(Half(), (), "None"), (Times(), (2.0,), r"2\.0")], ids=["answered", "taken"]
)
def test_constants_beside_tensors_are_told(
    tmp_path: Path, model: nn.Module, example: tuple[object, ...], said: str
) -> None:
    torch.export.save(torch.export.export(model, (torch.zeros(2, 3), *example)), tmp_path / "m.pt2")
    with pytest.raises(ArtifactError, match=f"it takes or answers {said}, a constant and no tensor"):
        torch_program.describe(tmp_path / "m.pt2")
