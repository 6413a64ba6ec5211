"""PyTorch: torch.profiler, whose outermost operators are the nodes of the exported program in their order."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from servemark.profiling.engines import Loaded, loaded
from servemark.profiling.operators import Shaped, bytes_of, plain
from servemark.profiling.timeline import Event, Inference, Span, on_device, traced, with_steps
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines.pytorch import PyTorch

if TYPE_CHECKING:
    import torch

PROFILERS = {"cpu": "torch.profiler", "cuda": "torch.profiler, with the kernels of each operator"}
NO_STEPS = None
_LOOK_AHEAD = 4
"""Nodes that may stand between two operators of the profile without being seen there."""
_RECURRENT = {"lstm", "gru", "rnntanh", "rnnrelu"}


class Node(NamedTuple):
    """A node of the program as it ran."""

    name: str
    module: str
    operator: str
    flops: int
    bytes: int


class Profiler(Loaded):
    """A program, and its nodes in the order in which they run: it runs once node by node, so that shapes are known."""

    def __init__(self, entry: Entry, device: str, inputs: Arrays) -> None:
        engine = loaded(entry, device)
        assert isinstance(engine, PyTorch)
        super().__init__(engine)
        self._nodes = nodes_of(engine, inputs)

    def profiled(self, inputs: Arrays) -> float:
        seconds, trace = traced(lambda: self.engine.run(inputs), self.engine.device)
        if self.engine.device == "cpu":
            self._found.append(Inference(seconds, events_of(trace.operators, self._nodes)))
        else:
            operators, nobodys = on_device(trace.operators, trace.kernels)
            events = [*events_of(operators, self._nodes), *nobodys]
            self._found.append(Inference(seconds, events, placed=False))
        return seconds


def events_of(operators: Sequence[Span], nodes: Sequence[Node]) -> list[Event]:
    """The profile's outermost operators, each with the node that it is of: both are in the same order.

    Those of no node are the engine's own, as where it takes arrays and gives them; a node need not be an operator.
    """
    found, own, place = list[Event](), list[Event](), 0
    for operator, at_us, us in operators:
        near = range(place, min(place + _LOOK_AHEAD, len(nodes)))
        number = next((each for each in near if nodes[each].operator == operator), None)
        if number is None:
            own.append(Event(operator.partition("::")[2], operator, at_us, us, flops=0))
        else:
            node, place = nodes[number], number + 1
            found.append(Event(node.name, node.operator, at_us, us, node.module, flops=node.flops, bytes=node.bytes))
    return sorted([*with_steps(found), *own], key=lambda event: event.start_us)


def nodes_of(engine: PyTorch, inputs: Arrays) -> list[Node]:
    """Run the program node by node, loops included, and list the nodes with their operations and bytes."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    found: list[Node] = []

    class Recorder(torch.fx.Interpreter):
        def __init__(self, graph: torch.fx.GraphModule, place: str) -> None:
            super().__init__(graph)
            self._place = f"{place}." if place else ""  # bodies of loops number their nodes anew

        def run_node(self, n: "torch.fx.Node") -> Any:
            if not isinstance(n.target, torch._ops.OpOverload):
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            with FlopCounterMode(display=False) as counter:
                result = super().run_node(n)
            operator = n.target._schema.name
            flops = _recurrent_flops(args) if plain(operator) in _RECURRENT else counter.get_total_flops()
            moved = 0 if n.target.is_view else bytes_of(operator, [*_tensors((args, kwargs))], [*_tensors(result)])
            found.append(Node(f"{self._place}{n.name}", _module(n), operator, flops, moved))
            return result

    program: Any = engine.module
    graphs = [(name, each) for name, each in program.named_modules() if isinstance(each, torch.fx.GraphModule)]
    recorders = [(each, Recorder(each, name)) for name, each in graphs]
    before = [each.forward for each, _ in recorders]
    for each, recorder in recorders:
        each.forward = recorder.run
    try:
        with torch.no_grad():
            program(*(torch.from_numpy(inputs[name]).to(engine.device) for name in engine.inputs))
    finally:
        for (each, _), forward in zip(recorders, before, strict=True):
            each.forward = forward
    return found


def _module(node: "torch.fx.Node") -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = [*stack.values()][-1][0] if stack else ""
    return path.removeprefix("L['self']").lstrip(".")


def _recurrent_flops(arguments: Sequence[Any]) -> int:
    """Operations of a layer or several: each weight once for each sample and time step."""
    data, _, weights = arguments[:3]
    return int(2 * data.shape[0] * data.shape[1] * sum(each.numel() for each in weights if each.dim() == 2))


def _tensors(value: Any) -> Iterator[Shaped]:
    import torch

    if isinstance(value, torch.Tensor):
        yield Shaped(tuple(value.shape), value.element_size())
    elif isinstance(value, dict):
        yield from _tensors([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
