"""The part of a SavedModel's graph that computes: what saves variables is left out, what else reaches out is refused.

A SavedModel always has operators that write files: those that save its variables. Nothing of a server calls them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from exporters.importing.tensorflow_operators import COMPUTING

RESTORE = "RestoreV2"
"""Reads variables; allowed where the loader says from which file."""
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
PLACEHOLDERS = {"Placeholder", "PlaceholderWithDefault"}
SIGNATURE = "serving_default"
INITIALISER = "__saved_model_init_op"
MAIN = "saved_model_main_op"


def keep_computing(graph: Any) -> set[str]:
    """Leave out of a meta graph what does more than compute; the operators that it cannot do without.

    An empty set: all that is left are operators of COMPUTING, calls of functions that are left, and the restoring of
    the model's own variables.
    """
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    nodes = {node.name: node for node in graph.graph_def.node}
    if len(functions) < len(graph.graph_def.library.function) or len(nodes) < len(graph.graph_def.node):
        return {"two parts of one name"}
    file = _node_of(graph.saver_def.filename_tensor_name)
    if file not in nodes or nodes[file].op not in PLACEHOLDERS:
        file = ""
    restoring = {name for name, function in functions.items() if _restores(function)}
    reaching = _reaching_functions(functions, restoring)
    forbidden = {**dict.fromkeys(restoring, RESTORE), **reaching}
    loading, outside = {}, {}
    for name, node in nodes.items():
        if _loads(node, functions, restoring - reaching.keys(), file):
            loading[name] = RESTORE
        elif why := _why(node, functions, forbidden):
            outside[name] = why
    removed = _descendants(nodes, outside)
    found = {removed.get(name, f"a missing node {name[:40]!r}") for name in _required(graph) - (nodes.keys() - removed)}
    found |= {RESTORE for name in _descendants(nodes, loading) if name in _answers(graph)}
    for name in graph.object_graph_def.concrete_functions:
        if name not in functions or name in forbidden:
            found.add(forbidden.get(name, f"a missing function {name[:40]!r}"))
    if not found:
        _remove(graph, removed.keys(), reaching.keys())
    return found


def _reaching_functions(functions: Mapping[str, Any], restoring: set[str]) -> dict[str, str]:
    """The functions that do more than compute, themselves or in what they call -> an operator that does."""
    reasons: dict[str, str] = {}
    callers = defaultdict(list)
    for name, function in functions.items():
        for node in function.node_def:
            for each in _called(node) & functions.keys():
                callers[each].append(name)
            if name in restoring and node.op == RESTORE and RESTORE not in functions:
                continue
            if why := _why(node, functions, dict.fromkeys(restoring, RESTORE)):
                reasons[name] = why
    return _spread(reasons, callers)


def _why(node: Any, functions: Mapping[str, Any], forbidden: Mapping[str, str]) -> str | None:
    """The operator by which a node does more than compute; None where it only computes."""
    called = _called(node)
    if node.op not in functions and node.op not in COMPUTING:
        return str(node.op)
    return next((forbidden[name] for name in called if name in forbidden), None)


def _called(node: Any) -> set[str]:
    """All names by which a node may call functions."""
    names, waiting = {node.op}, [node.attr]
    while waiting:
        for value in waiting.pop().values():
            kind = value.WhichOneof("value")
            for function in (value.func,) if kind == "func" else value.list.func if kind == "list" else ():
                names.add(function.name)
                waiting.append(function.attr)
    return names


def _restores(function: Any) -> bool:
    """Return True if a function restores variables from a file that its caller names."""
    arguments = {argument.name for argument in function.signature.input_arg}
    nodes = [node for node in function.node_def if node.op == RESTORE]
    return bool(nodes) and all(node.input and node.input[0] in arguments for node in nodes)


def _loads(node: Any, functions: Mapping[str, Any], restoring: set[str], file: str) -> bool:
    """Return True if a node of the graph restores the variables from the file that the loader names."""
    called = _called(node) & functions.keys()
    if not file:
        return False
    if node.op == RESTORE and not called:
        return bool(node.input) and _node_of(node.input[0]) == file
    if node.op not in CALLS or len(called) != 1 or not called <= restoring:
        return False
    function = functions[called.pop()]
    taken = {each.input[0] for each in function.node_def if each.op == RESTORE}
    places = [place for place, argument in enumerate(function.signature.input_arg) if argument.name in taken]
    return all(place < len(node.input) and _node_of(node.input[place]) == file for place in places)


def _descendants(nodes: Mapping[str, Any], first: Mapping[str, str]) -> dict[str, str]:
    """Nodes, and all that take something of theirs or wait for them -> the reason of the first one."""
    readers = defaultdict(list)
    for name, node in nodes.items():
        for source in node.input:
            readers[_node_of(source)].append(name)
    return _spread(first, readers)


def _spread(first: Mapping[str, str], after: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Give what comes after a name, and after that, the name's own reason."""
    found = dict(first)
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        for each in after.get(name, ()):
            if each not in found:
                found[each] = found[name]
                waiting.append(each)
    return found


def _answers(graph: Any) -> set[str]:
    """The nodes that answer requests."""
    outputs = graph.signature_def[SIGNATURE].outputs if SIGNATURE in graph.signature_def else {}
    return {name for output in outputs.values() for name in _tensors(output)}


def _required(graph: Any) -> set[str]:
    """The nodes that loading the model and answering need."""
    needed = _answers(graph) | {_node_of(graph.saver_def.restore_op_name)}
    if SIGNATURE in graph.signature_def:
        needed |= {name for each in graph.signature_def[SIGNATURE].inputs.values() for name in _tensors(each)}
    if INITIALISER in graph.signature_def:
        needed |= {name for each in graph.signature_def[INITIALISER].outputs.values() for name in _tensors(each)}
    for key in {MAIN, "legacy_init_op"} & graph.collection_def.keys():
        needed |= {_node_of(name) for name in graph.collection_def[key].node_list.value}
    needed |= {each.constant.operation for each in graph.object_graph_def.nodes if each.HasField("constant")}
    return needed - {""}


def _tensors(info: Any) -> Iterator[str]:
    if info.WhichOneof("encoding") == "composite_tensor":
        for part in info.composite_tensor.components:
            yield from _tensors(part)
    elif info.WhichOneof("encoding") == "coo_sparse":
        sparse = info.coo_sparse
        names = (sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
        yield from map(_node_of, names)
    else:
        yield _node_of(info.name)


def _node_of(tensor: str) -> str:
    """The node of a tensor or of a control input: `^a`, `a:0` and `a` are a's."""
    return tensor.removeprefix("^").partition(":")[0]


def _remove(graph: Any, nodes: Iterable[str], functions: Iterable[str]) -> None:
    """Take nodes and functions out, with all that names them."""
    gone, lost = set(nodes), set(functions)
    library = graph.graph_def.library
    parts: tuple[tuple[Any, Callable[[Any], bool]], ...] = (
        (graph.graph_def.node, lambda node: node.name not in gone),
        (library.function, lambda function: function.signature.name not in lost),
        (library.gradient, lambda each: not lost & {each.function_name, each.gradient_func}),
        (library.registered_gradients, lambda each: each.gradient_func not in lost),
    )
    for held, stays in parts:
        kept = [each for each in held if stays(each)]
        if len(kept) < len(held):
            del held[:]
            held.extend(kept)
    for name, signature in list(graph.signature_def.items()):
        ports = (*signature.inputs.values(), *signature.outputs.values())
        if gone & {tensor for port in ports for tensor in _tensors(port)}:
            del graph.signature_def[name]
    for name, collection in list(graph.collection_def.items()):
        if gone & set(map(_node_of, collection.node_list.value)):
            del graph.collection_def[name]
