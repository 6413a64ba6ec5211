"""Documents of a model: its interface, as servers tell it and as no server should, and Triton's counters."""

from typing import Any

import pytest

from loadgen.kserve.control import Control
from loadgen.kserve.model_documents import (
    UNKNOWN_MAX_BATCH,
    batch_sizes,
    composing_models,
    read_served_model,
    restarted,
)
from servemark.errors import ServerError
from servemark.figures.registry import number
from servemark.figures.server import NONE_EXECUTED, of_model
from servemark.workload import Tensor
from tests.golden.load import Load, constant_ns
from tests.golden.server import GoldenServer

X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
Y = {"name": "y", "datatype": "BYTES", "shape": [-1, 1]}


def read(inputs: Any, outputs: Any = (Y,), config: Any = None) -> Any:
    return read_served_model("'m' at h", {"inputs": inputs, "outputs": list(outputs)}, config or {})


def test_triton_says_whether_there_are_batches() -> None:
    batched = read([X], config={"max_batch_size": 8})
    assert (batched.inputs, batched.max_batch) == ((Tensor("x", "FP32", (4,)),), 8)
    unbatched = read([X], config={"max_batch_size": 0})
    assert (unbatched.inputs, unbatched.max_batch) == ((Tensor("x", "FP32", (-1, 4)),), 0)


def test_without_triton_a_first_size_of_minus_1_everywhere_is_the_batch() -> None:
    assert read([X]).max_batch == UNKNOWN_MAX_BATCH
    assert read([X]).outputs == (Tensor("y", "BYTES", (1,)),)
    one_fixed = read([X, {**X, "name": "z", "shape": [2]}])
    assert (one_fixed.max_batch, one_fixed.inputs[0].shape) == (0, (-1, 4))


def test_optional_inputs_and_texts_as_sizes_and_tritons_names() -> None:
    listed = [{**X, "shape": ["-1", "4"]}, {"name": "w", "datatype": "TYPE_STRING", "shape": [-1, 2]}]
    config = {"max_batch_size": 2, "input": [{"name": "w", "optional": True}, 7]}
    assert read(listed, config=config).inputs == (Tensor("x", "FP32", (4,)), Tensor("w", "BYTES", (2,), optional=True))


@pytest.mark.parametrize(
    ("inputs", "config", "words"),
    [
        ([], {}, "names no inputs.*\n.*fix: --input NAME:FP32:-1,4"),
        (None, {}, "names no inputs"),
        (7, {}, "inputs are 7, no list"),
        ([7], {}, "input 7 has no name"),
        ([{**X, "name": ""}], {}, "has no name"),
        ([{**X, "datatype": "FP128"}], {}, "'x' has the datatype 'FP128', which KServe v2 has not: BOOL"),
        ([{**X, "datatype": None}], {}, "the datatype None"),
        ([{**X, "shape": None}], {}, "the shape None"),
        ([{**X, "shape": [1] * 33}], {}, "no list of up to 32"),
        ([{**X, "shape": [-2]}], {}, "a size is -2, no whole number of at least -1"),
        ([{**X, "shape": [True]}], {}, "a size is True"),
        ([{**X, "shape": [1.5]}], {}, "a size is 1.5"),
        ([{**X, "shape": ["9" * 30]}], {}, "a size is"),
        ([X, X], {}, "'x' is named twice"),
        ([X], {"max_batch_size": "many"}, "max_batch_size is 'many'"),
        ([{**X, "shape": [3, 4]}], {"max_batch_size": 4}, r"max_batch_size 4, its metadata shape \[3, 4\] for 'x'"),
    ],
)
def test_metadata_that_lies(inputs: Any, config: Any, words: str) -> None:
    with pytest.raises(ServerError, match=words):
        read(inputs, config=config)


@pytest.mark.parametrize("name", ["x\nservemark: VALID", "x\r", "x\u2028y"])
def test_a_name_forges_no_line(name: str) -> None:
    """A tensor's name with an end of a line is refused, because it could forge a line on the terminal."""
    with pytest.raises(ServerError, match="has an end of a line in its name"):
        read_served_model("m", {"inputs": [{"name": name, "datatype": "FP32", "shape": [1]}]}, {})


def test_figures_are_those_between_two_readings() -> None:
    with GoldenServer(delay_s=0.01, capacity_per_s=200) as server:
        control = Control(server.url)
        Load(server.port).open([0] * 5)
        before = control.statistics("golden")
        # a gap longer than the service: nothing waits
        Load(server.port, batch=3).open(constant_ns(50, 20))
        after = control.statistics("golden")
    assert before is not None
    assert after is not None
    figures = of_model(before, after)
    assert number(figures, "server.compute_infer") == pytest.approx(15, abs=0.01)
    assert (number(figures, "server.batch_size"), batch_sizes(before, after)) == (3, {"3": 20})
    assert not restarted(before, after, answered=20)
    assert of_model(after, after)["server.queue"]["reason"] == NONE_EXECUTED


def statistics(count: int) -> dict[str, Any]:
    """Triton's counters after this number of requests of 2 ms in each step."""
    steps = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    durations = {step: {"count": count, "ns": count * 2_000_000} for step in steps}
    return {"inference_stats": durations, "inference_count": count, "execution_count": count}


@pytest.mark.parametrize(
    ("before", "after", "answered", "restart"),
    [(0, 100, 100, False), (90, 190, 180, False), (100, 99, 0, True), (100, 150, 1000, True), (5, 5, 0, False)],
)
def test_a_restart_shows_in_the_counters(before: int, after: int, answered: int, restart: bool) -> None:
    assert restarted(statistics(before), statistics(after), answered) is restart
    assert not restarted(None, statistics(after), answered)


def test_each_model_of_a_pipeline_has_its_own_figures() -> None:
    before, after = statistics(0), statistics(10)
    found = composing_models(
        {**before, "composing": {"a": before, "gone": before}}, {**after, "composing": {"a": after}}
    )
    assert [*found] == ["a"]
    figures = found["a"]["figures"]
    assert (number(figures, "server.calls"), number(figures, "server.compute_infer")) == (1, 2)
    assert composing_models(before, after) == {}
