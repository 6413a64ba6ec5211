"""States of sequences, without a Triton."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from servemark.errors import ArtifactError
from servers.engines import model_inputs, model_outputs

MODULE = "servers.triton_backend.sequence_state"
STATE = {"input_name": "s", "output_name": "so"}
START, END = 1, 2


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    fake = SimpleNamespace(TRITONSERVER_REQUEST_FLAG_SEQUENCE_START=START, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END=END)
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", fake)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


def request(sequence: int, flags: int = 0) -> Any:
    return SimpleNamespace(correlation_id=lambda: sequence, flags=lambda: flags)


def test_each_sequence_has_its_own_state(module: ModuleType) -> None:
    states = module.SequenceStates({"sequence_batching": {"state": [STATE]}})
    buffer = np.zeros((1, 1))
    for sequence in (1, 2):
        arrays = {"s": "initial"}
        states.fill(request(sequence, START), arrays)
        assert arrays == {"s": "initial"}
        buffer[:] = sequence
        states.keep(request(sequence, START), {"so": buffer})
    for sequence in (1, 2):
        later: dict[str, Any] = {}
        states.fill(request(sequence), later)
        assert later["s"].tolist() == [[sequence]]


def test_an_ended_and_an_idle_sequence_are_forgotten(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    states = module.SequenceStates(
        {"sequence_batching": {"state": [STATE], "max_sequence_idle_microseconds": 5_000_000}}
    )
    states.keep(request(1, START), {"so": 1})
    states.keep(request(1, END), {"so": 2})
    states.keep(request(2, START), {"so": 3})
    now[0] += 10.1
    states.fill(request(3, START), {})
    for sequence in (1, 2):
        with pytest.raises(ValueError, match=f"the state of sequence {sequence} is not here"):
            states.fill(request(sequence), {})


def test_a_sequence_must_stay_with_its_instance(module: ModuleType) -> None:
    batching = {"state": [STATE], "oldest": {}}
    for group in ({"count": 2}, {"count": 1, "gpus": [0, 1]}, {"gpus": [0, 1]}):
        with pytest.raises(ArtifactError, match="with 2 instances"):
            module.SequenceStates({"sequence_batching": batching, "instance_group": [group]})
    assert module.SequenceStates({"sequence_batching": batching, "instance_group": [{"count": 1}]})
    assert not module.SequenceStates({"instance_group": [{"count": 2}]})


def test_a_model_has_inputs_that_no_client_sends() -> None:
    config = {
        "input": [{"name": "x"}],
        "output": [{"name": "y"}],
        "sequence_batching": {"control_input": [{"name": "START"}], "state": [STATE]},
    }
    assert (model_inputs(config), model_outputs(config)) == (["x", "START", "s"], ["y", "so"])
