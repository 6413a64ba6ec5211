"""Work that torch.onnx.export would do over and over, done once: its file is the same."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def without_repeated_work() -> Iterator[None]:
    """Let torch list its translations once in a process, and onnxscript look for two outputs where the first may be.

    The list is read from the source of five hundred functions for each export. For a rule whose pattern has two
    outputs, onnxscript lists the graph's nodes anew at each of them, before it asks whether that node is the first.
    """
    with ExitStack() as patches:
        for each in _patches():
            patches.enter_context(each)
        yield


def _patches() -> list[AbstractContextManager[Any]]:
    """Return what replaces the repeated work; nothing where another version of the packages has other insides."""
    try:
        from onnxscript import rewriter
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        read = ONNXRegistry.from_torchlib

        def listed(**options: Any) -> Any:
            return _listed(read, "torchvision" in sys.modules, **options)

        matchers = [rule._matcher for rule in rewriter._DEFAULT_REWRITE_RULES]
        several = [matcher for matcher in matchers if not matcher.pattern.has_single_output_node]
        return [
            patch.object(ONNXRegistry, "from_torchlib", staticmethod(listed)),
            *(patch.object(matcher, "match", _where_the_first_may_be(matcher)) for matcher in several),
        ]
    except (ImportError, AttributeError):
        return []


@functools.cache
def _listed(read: Callable[..., Any], torchvision: bool, **options: Any) -> Any:  # noqa: ARG001 - a part of the key
    """List the translations; those of torchvision's operators are found only where it is imported already."""
    return read(**options)


def _where_the_first_may_be(matcher: Any) -> Callable[..., Any]:
    from onnxscript.rewriter import MatchResult

    whole, first = matcher.match, matcher.pattern.output_nodes[0]

    def match(model: Any, graph: Any, node: Any, **options: Any) -> Any:
        if not first.op.matches(node.op_type):
            return MatchResult().fail("No match found.")
        return whole(model, graph, node, **options)

    return match
