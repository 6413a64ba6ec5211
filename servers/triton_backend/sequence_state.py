"""State that a model hands from one request of a sequence to the next: `sequence_batching { state ... }`.

Triton gives a model's first request of a sequence the initial state as further inputs. It takes the next state from C++
backends alone, so for a Python-based backend it is kept here, by the sequence's id.
Source: Triton's user guide, "Implicit State Management"; the Python backend's README, "Implicit Sequence Batching".
"""

import copy
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import triton_python_backend_utils as triton

from servemark.errors import ArtifactError

DEFAULT_IDLE_US = 1_000_000
"""Triton ends a sequence whose next request has not come by then, where the configuration does not say."""


class Kept(NamedTuple):
    """State of a sequence, by the inputs that take it."""

    values: Mapping[str, Any]
    at_s: float


class SequenceStates:
    """States of the sequences that one instance serves. Raises ArtifactError where several would share a sequence."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        batching = config.get("sequence_batching") or {}
        self._outputs = {each["input_name"]: each["output_name"] for each in batching.get("state") or []}
        idle_us = int(batching.get("max_sequence_idle_microseconds") or DEFAULT_IDLE_US)
        self._idle_s = max(idle_us, DEFAULT_IDLE_US) / 1e6
        self._kept: dict[object, Kept] = {}
        groups = config.get("instance_group") or [{}]
        instances = sum(int(group.get("count", 1)) * max(len(group.get("gpus") or ()), 1) for group in groups)
        if self._outputs and "oldest" in batching and instances > 1:
            raise ArtifactError(
                f"with {instances} instances and the strategy `oldest` a sequence changes its instance, and with it "
                "its process, which keeps its state",
                fix="instance_group { count: 1 }, or the strategy `direct`",
            )

    def __bool__(self) -> bool:
        return bool(self._outputs)

    def fill(self, request: "triton.InferenceRequest", arrays: dict[str, Any]) -> None:
        """Put the sequence's state into a request's inputs; the first request has the initial one."""
        if request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self._forget_idle()
            return
        kept = self._kept.get(request.correlation_id())
        if kept is None:
            raise ValueError(f"the state of sequence {request.correlation_id()} is not here: it has been idle too long")
        arrays.update(kept.values)

    def keep(self, request: "triton.InferenceRequest", answer: Mapping[str, Any]) -> None:
        """Keep the state for the sequence's next request, if there is one."""
        sequence = request.correlation_id()
        if request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            self._kept.pop(sequence, None)
            return
        # A copy: it may lie in an engine's buffer, or be a part of a batch.
        values = {name: copy.deepcopy(answer[output]) for name, output in self._outputs.items()}
        self._kept[sequence] = Kept(values, time.monotonic())

    def _forget_idle(self) -> None:
        """Let go of sequences that Triton has ended by itself, of which it takes no further request."""
        before_s = time.monotonic() - 2 * self._idle_s
        for sequence in [each for each, kept in self._kept.items() if kept.at_s < before_s]:
            del self._kept[sequence]
