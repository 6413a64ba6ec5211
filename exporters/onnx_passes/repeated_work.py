"""Work that torch.onnx.export would do over and over, done once: its file is the same."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def without_repeated_work() -> Iterator[None]:
    """Let torch list its translations once in a process, and onnxscript look for two outputs where the first may be.

    The list is read from the source of five hundred functions for each export. For a rule whose pattern has two
    outputs, onnxscript lists the graph's nodes anew at each of them, before it asks whether that node is the first.
    """
    from onnxscript import rewriter
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    listed = staticmethod(functools.partial(_listed, ONNXRegistry.from_torchlib))
    with ExitStack() as patches:
        enter = patches.enter_context
        enter(patch.object(ONNXRegistry, "from_torchlib", listed))
        for rule in rewriter._DEFAULT_REWRITE_RULES:
            matcher = rule._matcher
            if not matcher.pattern.has_single_output_node:
                enter(patch.object(matcher, "match", _where_the_first_may_be(matcher)))
        yield


@functools.cache
def _listed(read: Callable[..., Any], **options: Any) -> Any:
    return read(**options)


def _where_the_first_may_be(matcher: Any) -> Callable[..., Any]:
    from onnxscript.rewriter import MatchResult

    whole, first = matcher.match, matcher.pattern.output_nodes[0]

    def match(model: Any, graph: Any, node: Any, **options: Any) -> Any:
        if not first.op.matches(node.op_type):
            return MatchResult().fail("No match found.")
        return whole(model, graph, node, **options)

    return match
