"""Parts of a SavedModel's graph that are kept, refused, or left out."""

from typing import Any

import pytest

from exporters.importing.tensorflow_graph import COMPUTING, keep_computing
from servemark.frameworks.tensorflow import import_tensorflow


def graph(*nodes: str, functions: dict[str, tuple[str, ...]] | None = None, output: str = "y") -> Any:
    """A graph of nodes written like `name=Op(input, ...)`, with functions of such nodes."""
    import_tensorflow()
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

    made = MetaGraphDef()
    for text in nodes:
        _put(made.graph_def.node.add(), text)
    for name, body in (functions or {}).items():
        function = made.graph_def.library.function.add()
        function.signature.name = name
        function.signature.input_arg.add(name="file")
        for text in body:
            _put(function.node_def.add(), text)
    made.signature_def["serving_default"].outputs["y"].name = f"{output}:0"
    return made


def _put(node: Any, text: str) -> None:
    node.name, _, rest = text.partition("=")
    node.op, _, inputs = rest.removesuffix(")").partition("(")
    node.input.extend(each for each in inputs.split(",") if each)
    node.op, _, function = node.op.partition("@")
    if function:
        node.attr["f"].func.name = function


@pytest.mark.parametrize(
    ("nodes", "functions", "found"),
    [
        (("x=Placeholder", "y=Relu(x)"), {}, set()),
        (("x=Placeholder", "y=ReadFile(x)"), {}, {"ReadFile"}),
        (("x=ReadFile", "z=Relu(x)", "y=Identity(z:0)"), {}, {"ReadFile"}),
        (("x=WriteFile", "y=NoOp(^x)"), {}, {"WriteFile"}),
        (("y=f",), {"f": ("a=ReadFile",)}, {"ReadFile"}),
        (("y=PartitionedCall@f",), {"f": ("a=If@g",), "g": ("b=PyFunc",)}, {"PyFunc"}),
        (("y=Relu",), {"Relu": ("a=ReadFile",)}, {"ReadFile"}),
        (("y=f",), {"f": ("a=g",), "g": ("b=f",)}, set()),
        (("y=NewOperator",), {}, {"NewOperator"}),
        (("y=Relu", "y=ReadFile"), {}, {"two parts of one name"}),
        (("z=Relu",), {}, {"a missing node 'y'"}),
        (("y=RestoreV2",), {}, {"RestoreV2"}),
        (("y=Relu(y)",), {}, set()),
    ],
)
def test_what_an_answer_needs_has_to_compute(
    nodes: tuple[str, ...], functions: dict[str, tuple[str, ...]], found: set[str]
) -> None:
    assert keep_computing(graph(*nodes, functions=functions)) == found


def test_what_no_answer_needs_is_left_out() -> None:
    made = graph("y=Relu", "s=f", "t=Identity(s)", functions={"f": ("a=SaveV2",), "g": ("b=Relu",)})
    made.signature_def["more"].outputs["t"].name = "t:0"
    made.collection_def["trained"].node_list.value.append("t:0")
    made.graph_def.library.gradient.add(function_name="g", gradient_func="f")
    assert keep_computing(made) == set()
    assert [node.name for node in made.graph_def.node] == ["y"]
    assert [each.signature.name for each in made.graph_def.library.function] == ["g"]
    assert (list(made.signature_def), len(made.collection_def)) == (["serving_default"], 0)
    assert len(made.graph_def.library.gradient) == 0


def test_a_function_that_the_loader_makes_is_needed() -> None:
    made = graph("y=Relu", functions={"f": ("a=WriteFile",)})
    made.object_graph_def.concrete_functions["f"].SetInParent()
    assert keep_computing(made) == {"WriteFile"}


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        (("p=Placeholder", "r=PartitionedCall@f(p)", "y=Relu"), set()),
        (("p=PlaceholderWithDefault(c)", "c=Const", "r=RestoreV2(p)", "y=Relu"), set()),
        (("p=Placeholder", "c=Const", "r=PartitionedCall@f(c)", "y=Relu"), {"RestoreV2"}),
        (("p=Const", "r=PartitionedCall@f(p)", "y=Relu"), {"RestoreV2"}),
        (("p=Placeholder", "r=PartitionedCall@f(p)", "y=Relu(r)"), {"RestoreV2"}),
        (("p=Placeholder", "c=Const", "r=NoOp", "y=PartitionedCall@f(c)"), {"RestoreV2"}),
        (("p=Placeholder", "c=Const", "r=NoOp", "y=PartitionedCall@g(c)"), {"RestoreV2"}),
        (("p=Placeholder", "r=If@f(p)", "y=Relu"), {"RestoreV2"}),
    ],
)
def test_variables_are_restored_from_the_loader_s_file_alone(nodes: tuple[str, ...], found: set[str]) -> None:
    made = graph(*nodes, functions={"f": ("a=RestoreV2(file)",), "g": ("b=PartitionedCall@f(file)",)})
    made.saver_def.filename_tensor_name, made.saver_def.restore_op_name = "p:0", "r"
    assert keep_computing(made) == found


def test_no_operator_of_the_list_is_known_to_reach_out() -> None:
    """The list is mended by hand, and this tells a slip; test_saved_model.py attacks it."""
    words = ("File", "Dataset", "Summary", "Py", "Reader", "Save", "Print", "Debug", "Remote", "Rpc", "Send", "Recv")
    more = ("Session", "Xla", "Collective", "Iterator", "Tpu", "TPU", "Queue", "Host", "Shard", "Checkpoint", "Write")
    allowed = {name for name in COMPUTING if name.startswith("TensorArrayWrite")}
    assert not {name for name in COMPUTING - allowed for word in (*words, *more) if word in name}
