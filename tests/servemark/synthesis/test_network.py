"""The workload file of a network: it loads, counts its parameters, and its network computes what it says."""

from pathlib import Path

import numpy as np
import pytest

from servemark.synthesis.layers import Attention, Convolution, Dense, Embedding, Norm, Recurrent, SequenceLayer
from servemark.synthesis.network import network, written
from servemark.synthesis.plan import Chain, Link, ordered, stages
from servemark.synthesis.run import layers_of
from servemark.workload.registry import load_file

LINKS = (Link(7, 2, 8), Link(1, 1, 12, pooled=True), Link(4, 1, 10), Link(1, 2, 6), Link(3, 1, 16, pooled=True))
CHAIN = Chain(3, 33, LINKS)
SEQUENCE = (
    Embedding(50, 16, 6),
    Dense(6, 16, 40, activation="relu"),
    Recurrent("lstm", 6, 40, 12),
    Recurrent("gru", 6, 16, 16),
    Attention(2, 6, 9, 8),
    Norm(6, 16),
    Dense(1, 16, 16, calls=3),
    Attention(2, 1, 6, 8, calls=3),
    Dense(1, 16, 50, tied=True, calls=3),
)


@pytest.mark.parametrize(
    ("chain", "layers", "inputs"),
    [
        (CHAIN, (Dense(1, 16, 20), Dense(1, 20, 30)), {"image": (3, 33, 33)}),
        (None, SEQUENCE, {"ids": (6,)}),
        (CHAIN, SEQUENCE, {"image": (3, 33, 33), "ids": (6,)}),
        (None, (Recurrent("gru", 4, 8, 8), Dense(4, 8, 3)), {"features": (4, 8)}),
        (Chain(1, 20, LINKS[:2]), (), {"image": (1, 20, 20)}),
    ],
    ids=["convolutions", "sequence", "both", "features", "convolutions alone"],
)
def test_a_file_is_a_workload_that_counts_what_it_computes(
    chain: Chain | None, layers: tuple[SequenceLayer, ...], inputs: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    file = tmp_path / "made.py"
    file.write_text(written("made", chain, ordered(layers), ("a", "b"), "a b --name made --seed 0"))
    workload = load_file(file)
    assert {each.name: each.shape for each in workload.inputs} == inputs
    import torch

    model = workload.build()
    assert sum(each.numel() for each in model.parameters()) == workload.parameters
    samples = workload.samples(np.random.default_rng(0))
    batch = workload.request([next(samples), next(samples)])
    answers = model(*(torch.from_numpy(batch[each.name]) for each in workload.inputs))
    assert answers.shape == (2, *workload.outputs[0].shape)
    assert answers.isfinite().all()
    assert (answers[0] - answers[1]).abs().max() > 0.01


def test_a_loop_over_a_part_of_the_state_is_exported() -> None:
    import torch

    layers = ordered(SEQUENCE)
    assert [stage.calls for stage in stages(layers)] == [1, 3]
    program = torch.export.export(
        network(None, layers).eval(),
        (torch.zeros(2, 6, dtype=torch.int32),),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        strict=False,
    )
    assert "while_loop" in program.graph_module.code


def test_layers_of_a_network_that_was_made_are_those_that_it_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "traced.py"
    file.write_text(written("traced", CHAIN, ordered(SEQUENCE), ("a",), "a --name traced --seed 0"))
    monkeypatch.setenv("SERVEMARK_WORKLOADS", str(file))
    found = layers_of("traced")
    # in PyTorch a convolution's picture is padded before it
    others = [each for each in found.layers if not isinstance(each, Convolution)]
    assert len(found.of(Convolution)) == len(LINKS)
    assert sorted(map(repr, others)) == sorted(map(repr, ordered(SEQUENCE)))
    assert found.left_out < 0.2


def test_a_tied_layer_that_finds_no_table_gets_its_own() -> None:
    small, tied = Embedding(10, 4, 2), Dense(1, 4, 20, tied=True)
    assert ordered((tied, small)) == (small, Dense(1, 4, 20))
    assert ordered((tied, Embedding(20, 4, 2))) == (Embedding(20, 4, 2), tied)
