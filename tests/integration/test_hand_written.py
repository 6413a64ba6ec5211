"""Entries that their users wrote, in a real Triton: names in any script, empty tensors, states of sequences."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from servemark.errors import OptionError, ServerError
from servemark.figures.registry import count_of, value_of
from servers import Server, open_server
from servers.launch.server import ServerJob
from servers.modes import embedded
from tests.support.command_line import Servemark
from tests.support.locust_run import the_result
from tests.support.shared_load import WIRES, outputs, served
from tests.support.triton import START_S, needs_triton

DOUBLED, SUM, RUNNING = "модель-50%", "graph_sum", "running"
STATE = """sequence_batching { state [ { input_name: "s" output_name: "so" data_type: TYPE_FP32 dims: [ 1 ]
  initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true name: "zero" } } ] }"""

pytestmark = [needs_triton, pytest.mark.timeout(300)]


def write(
    repository: Path, name: str, most: int, nodes: list[Any], ports: dict[str, list[Any]], *, config: str = ""
) -> None:
    """Write an entry of `ports` with their shapes; y and so are outputs. Those in `config` are not described."""
    kinds: dict[str, list[Any]] = {"input": [], "output": []}
    lines: dict[str, list[str]] = {"input": [], "output": []}
    for port, shape in ports.items():
        kind = "output" if port in {"y", "so"} else "input"
        kinds[kind].append(helper.make_tensor_value_info(port, TensorProto.FLOAT, shape))
        if f'"{port}"' not in config:
            dims = [size if isinstance(size, int) else -1 for size in (shape[1:] if most else shape)]
            lines[kind].append(f'{{ name: "{port}" data_type: TYPE_FP32 dims: {dims} }}')
    axes = [numpy_helper.from_array(np.array([0], np.int64), "axes")]
    graph = helper.make_graph(nodes, "g", kinds["input"], kinds["output"], axes)
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    tensors = "\n".join(f"{kind} [ {', '.join(each)} ]" for kind, each in lines.items())
    text = f'backend: "onnxruntime"\nmax_batch_size: {most}\n{tensors}\n{config}\n'
    (repository / name / "config.pbtxt").write_text(text)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lie below a folder whose name is not ASCII either."""
    root = tmp_path_factory.mktemp("модели")
    twice = [helper.make_node("Add", ["x", "x"], ["y"])]
    write(root, DOUBLED, 8, twice, {"x": ["n", 4], "y": ["n", 4]})
    added = [
        helper.make_node("ReduceSum", ["edges", "axes"], ["e"], keepdims=0),
        helper.make_node("Add", ["e", "x"], ["y"]),
    ]
    write(root, SUM, 0, added, {"edges": ["k", 2], "x": [2], "y": [2]})
    summed = [helper.make_node("Add", ["x", "s"], ["y"]), helper.make_node("Identity", ["y"], ["so"])]
    write(root, RUNNING, 4, summed, {"x": ["n", 1], "s": ["n", 1], "y": ["n", 1], "so": ["n", 1]}, config=STATE)
    write(
        root, "lacking", 4, summed, {"x": ["n", 1], "s": ["n", 1], "y": ["n", 1], "so": ["n", 1]}, config='# "s" "so"'
    )
    return root


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with open_server("embedded", repository, [DOUBLED, SUM, RUNNING], start_timeout_s=START_S) as triton:
        yield triton


@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_name_beyond_ascii_is_served_and_driven(server: Server, wire: str, memory: str) -> None:
    assert len(outputs(server, served(server, DOUBLED, wire), wire, memory, 2, distinct=5)) == 5


@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_tensor_without_elements_is_sent(server: Server, wire: str, memory: str, tmp_path: Path) -> None:
    (tmp_path / "zero.json").write_text('{"data": [{"edges": {"content": [], "shape": [0, 2]}, "x": [1, 2]}]}')
    flags = ("--input-data", str(tmp_path / "zero.json"))
    [answer] = outputs(server, served(server, SUM, wire), wire, memory, 1, *flags, distinct=1).values()
    assert np.frombuffer(answer["y"][2], "f4").tolist() == [1, 2]


def test_the_state_of_a_sequence_is_handed_on(server: Server) -> None:
    import tritonclient.grpc as library

    def ask(client: Any, sequence: int, value: float, place: int) -> float:
        tensor = library.InferInput("x", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.array([[value]], np.float32))
        flags = {"sequence_id": sequence, "sequence_start": place == 0, "sequence_end": place == 2}
        return float(client.infer(RUNNING, [tensor], **flags).as_numpy("y")[0, 0])

    with library.InferenceServerClient(server.grpc) as client:
        for _ in range(2):
            told = [
                ask(client, 1 + place % 2, 10.0 ** (place % 2) * (1 + place // 2), place // 2) for place in range(6)
            ]
            assert told == [1, 10, 3, 30, 6, 60]


def test_an_entry_that_lacks_an_input_is_told_to_be_corrected(repository: Path) -> None:
    """No export makes it."""
    triton = open_server("embedded", repository, ["lacking"], start_timeout_s=START_S)
    with pytest.raises(ServerError, match="Triton cannot load lacking: ") as error, triton:
        pass
    assert "servemark export" not in str(error.value)
    assert "its configuration says ['x']" in str(error.value)
    assert f"correct {repository}/lacking/config.pbtxt" in str(error.value)


@pytest.mark.parametrize("name", ["a b", "q?x", "semi;c", "amp&x", "back\\slash", 'quo"te', "$HOME", "*", "a'b"])
def test_a_name_that_a_shell_would_read_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    """Triton's Python backend puts it into a line of bash."""
    with pytest.raises(OptionError, match="the embedded Triton cannot serve"):
        embedded.command(ServerJob(tmp_path, [name], "127.0.0.1", {}, scratch=tmp_path))


def test_run_serves_an_entry_that_was_written_by_hand(repository: Path, servemark: Servemark, tmp_path: Path) -> None:
    flags = ["--model-repository", str(repository), "--sequence-length", "3", "--request-rate", "50"]
    done = servemark("run", RUNNING, *flags, "--duration", "1", "--warmup", "0.2", "--out", str(tmp_path))
    assert f"serving {RUNNING} at http://127.0.0.1" in done.err
    result = the_result(tmp_path)
    assert value_of(result, "errors.count") == 0
    assert count_of(result, "sequence.completed") > 0
    for flag in ("--cold-start", "--in-process"):
        done = servemark("run", RUNNING, "--model-repository", str(repository), flag)
        assert (done.code, "written by hand" in done.err) == (3, True)
