"""Recurrent layers: one layer, one direction in time, as DeepBench has them: vanilla (tanh), LSTM and GRU.

Backward times are those of what the library does for one gradient: oneDNN's fused LSTM computes all of them in one
pass. oneDNN reorders the weights in each call: that conversion is within the time, and within `fixed_ms`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

if TYPE_CHECKING:
    import torch

    Cell = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

GATES = {"vanilla": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True)
class Recurrent(Kernel):
    """`timesteps` steps of `batch` sequences; the input is as wide as the state, or `inputs`."""

    cell: Literal["vanilla", "lstm", "gru"]
    hidden: int
    batch: int
    timesteps: int
    direction: Literal["forward", "backward_data", "backward_weights"] = "forward"
    inputs: int = 0

    OPERATIONS: ClassVar = (
        "2, 6 or 8 hidden^2 batch timesteps (vanilla, GRU, LSTM): the recurrent product, in each direction"
    )
    CALL: ClassVar = "torch.rnn_tanh, torch.gru, torch.lstm"

    @property
    def width(self) -> int:
        """Of the input."""
        return self.inputs or self.hidden

    def flops(self) -> int:
        return 2 * GATES[self.cell] * self.hidden**2 * self.batch * self.timesteps

    def full_flops(self) -> int:
        """With the product of the input, which DeepBench's rule leaves out."""
        return 2 * GATES[self.cell] * self.hidden * (self.hidden + self.width) * self.batch * self.timesteps

    def elements(self) -> Elements:
        gates = GATES[self.cell] * self.hidden
        weights = gates * (self.hidden + self.width) + 2 * gates
        steps = self.timesteps * self.batch
        data, answer = steps * self.width, steps * self.hidden
        states = (2 if self.cell == "lstm" else 1) * self.batch * self.hidden
        return {
            "forward": Elements(weights + data + states, answer + states),
            "backward_data": Elements(weights + 2 * answer, data),
            "backward_weights": Elements(data + 2 * answer, weights),
        }[self.direction]

    def shorter(self) -> Kernel | None:
        return replace(self, timesteps=self.timesteps // 2) if self.timesteps > 1 else None

    def figures(self, seconds: float) -> dict[str, float]:
        return {"tflops_with_inputs": self.full_flops() / seconds / 1e12}

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        gates, scale = GATES[self.cell] * self.hidden, 1 / math.sqrt(self.hidden)
        shapes = ((gates, self.width), (gates, self.hidden), (gates,), (gates,))
        weights = [make.normal(*shape) * scale for shape in shapes]
        data = make.normal(self.timesteps, self.batch, self.width)
        states = [make.normal(1, self.batch, self.hidden) for _ in range(2 if self.cell == "lstm" else 1)]
        if self.direction == "forward":
            return Bound((data, *states, *weights), lambda: self._layer(data, states, weights))
        wanted = [data] if self.direction == "backward_data" else weights
        gradient = make.normal(self.timesteps, self.batch, self.hidden)
        with torch.enable_grad():
            for each in wanted:
                each.requires_grad_()
            answer = self._layer(data, states, weights)[0]
        inputs = tuple(each.detach() for each in (data, *states, *weights, gradient))
        return Bound(inputs, lambda: torch.autograd.grad(answer, wanted, gradient, retain_graph=True))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        """Of some sequences, but the weights' gradients are sums over all of them."""
        import torch

        inputs = [each.double() for each in bound.inputs]
        backward = inputs.pop() if self.direction != "forward" else None
        part = torch.arange(self.batch)
        if self.direction != "backward_weights":
            part = sample.of(self.batch, 2 * self.full_flops() / self.batch)
        part = part.to(inputs[0].device)
        data, weights = inputs[0][:, part], inputs[-4:]
        states = [each[0, part] for each in inputs[1:-4]]
        if backward is None:
            yield output[0][:, part], self._by_hand(data, states, weights)
            return
        wanted = [data] if self.direction == "backward_data" else weights
        with torch.enable_grad():
            for each in wanted:
                each.requires_grad_()
            answer = self._by_hand(data, states, weights)
            gradients = torch.autograd.grad(answer, wanted, backward[:, part])
        for found, right in zip(output, gradients, strict=True):
            yield found[:, part] if self.direction == "backward_data" else found, right

    def _layer(
        self, data: "torch.Tensor", states: "list[torch.Tensor]", weights: "list[torch.Tensor]"
    ) -> "tuple[torch.Tensor, ...]":
        import torch

        backward = torch.is_grad_enabled()
        options = (True, 1, 0.0, backward, False, False)  # biases, layers, dropout, training, both ways, batch first
        if self.cell == "lstm":
            return torch.lstm(data, states, weights, *options)
        function = torch.gru if self.cell == "gru" else torch.rnn_tanh
        return function(data, states[0], weights, *options)

    def _by_hand(
        self, data: "torch.Tensor", states: "list[torch.Tensor]", weights: "list[torch.Tensor]"
    ) -> "torch.Tensor":
        """The layer from its equations (those that `torch.nn.LSTM` and `torch.nn.GRU` document)."""
        import torch

        from_input, from_state, bias, state_bias = weights
        hidden, memory = states[0], states[-1]
        answers = []
        for step in data:
            given, kept = step @ from_input.mT + bias, hidden @ from_state.mT + state_bias
            if self.cell == "vanilla":
                hidden = torch.tanh(given + kept)
            elif self.cell == "gru":
                (reset, update, new), (kept_reset, kept_update, kept_new) = given.chunk(3, 1), kept.chunk(3, 1)
                share = torch.sigmoid(update + kept_update)
                candidate = torch.tanh(new + torch.sigmoid(reset + kept_reset) * kept_new)
                hidden = (1 - share) * candidate + share * hidden
            else:
                enter, forget, cell, leave = (given + kept).chunk(4, 1)
                memory = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(cell)
                hidden = torch.sigmoid(leave) * torch.tanh(memory)
            answers.append(hidden)
        return torch.stack(answers)
