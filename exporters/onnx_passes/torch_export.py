"""Changes of torch's own export while it runs: recurrences are one operator each, and work is done once."""

import functools
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    import torch


def hush() -> None:
    """Keep torch from logging each try before the one that works, and onnxscript each constant that it cannot fold.

    What fails raises.
    """
    for name in ("torch._subclasses.fake_tensor", "torch.export._trace", "onnxscript.optimizer._constant_folding"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def whole_recurrences() -> Iterator[None]:
    """Let torch trace nn.GRU and nn.LSTM as one operator each, whose output shapes follow from its inputs'.

    Torch finds these shapes by running a decomposition: a loop in Python, which fixes the number of steps, or, where
    the ONNX exporter is asked for dynamic shapes, a while_loop, which torch 2.15 cannot trace in a larger model. The
    decompositions serve no other purpose here: the operators stay in the program, and ONNX has both.
    """
    from torch.export import _patches

    with (
        warnings.catch_warnings(),
        patch.object(_patches, "gru_while_loop_impl", _gru_outputs),
        patch.object(_patches, "lstm_while_loop_impl", _lstm_outputs),
        _patches.register_gru_while_loop_decomposition(),
        _patches.register_lstm_while_loop_decomposition(),
    ):
        # the layers keep a second list of their parameters, which torch sets anew while it traces
        warnings.filterwarnings("ignore", r"The tensor attributes? .*_flat_weights", UserWarning)
        yield


def _gru_outputs(inputs: "torch.Tensor", state: "torch.Tensor", *options: Any) -> "tuple[torch.Tensor, torch.Tensor]":
    *_, bidirectional, _ = options
    width = state.shape[2] * (2 if bidirectional else 1)
    return inputs.new_empty(*inputs.shape[:2], width), state.new_empty(state.shape)


def _lstm_outputs(
    inputs: "torch.Tensor", states: "Sequence[torch.Tensor]", *options: Any
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    outputs, hidden = _gru_outputs(inputs, states[0], *options)
    return outputs, hidden, states[1].new_empty(states[1].shape)


@contextmanager
def without_repeated_work() -> Iterator[None]:
    """Let torch list its translations once in a process, and onnxscript look for two outputs where the first may be.

    The list is read from the source of five hundred functions for each export. For a rule whose pattern has two
    outputs, onnxscript lists the graph's nodes anew at each of them, before it asks whether that node is the first.
    """
    with ExitStack() as patches:
        for each in _replacements():
            patches.enter_context(each)
        yield


def _replacements() -> list[AbstractContextManager[Any]]:
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
