"""Behaviour of the golden server for each request: a function of its arrival time and its number alone."""

import math
import random
from dataclasses import dataclass
from typing import Literal

from tests.golden.tensors import Tensor

# The order decides which one a request gets when two "every Nth" fall on it: the first.
KINDS = (
    "never", "reset", "truncate", "error", "wrong_shape", "wrong_datatype", "wrong_value", "other_model",
    "other_version", "slow",
)  # fmt: skip


@dataclass(frozen=True)
class Behaviour:
    """Known behaviour by construction; every `*_every` counts inference requests from 1 and 0 turns it off.

    The server is infinitely parallel unless `capacity_per_s` makes it one first-in-first-out server whose service time
    is 1 / capacity_per_s, or `exponential` of that mean: M/D/1 and M/M/1 under Poisson arrivals. A request that arrives
    in a stall starts at the stall's end. `delay_s` follows the service.
    """

    model: str = "golden"
    aliases: tuple[str, ...] = ()  # other names of the same model, with a record of paths and the statistics in common
    inputs: tuple[str, ...] = ("INPUT0:FP32:64",)
    outputs: tuple[str, ...] = ("OUTPUT0:FP32:64",)
    optional: tuple[str, ...] = ()  # names of inputs that a request may leave out
    max_batch_size: int = 64  # 0: the tensors have no batch dimension
    configuration: bool = True  # whether it tells Triton's configuration of the model
    metadata: bool = True  # whether it tells the model's tensors; MLServer does not where its settings have none
    json_only: bool = False  # knows no binary tensors, and answers 500 to them, as MLServer 1.7 does
    answers: str = ""  # a golden.npz whose outputs to answer with, instead of the inputs
    delay_s: float = 0.0
    stall_s: float = 0.0
    stall_every_s: float = 0.0
    stall_phase_s: float = 0.0  # from the anchor to the start of the first stall
    stall_anchor: Literal["start", "first_request"] = "start"
    capacity_per_s: float = 0.0
    exponential: bool = False
    error_every: int = 0
    error_status: int = 500
    wrong_shape_every: int = 0
    wrong_datatype_every: int = 0
    wrong_value_every: int = 0
    other_model_every: int = 0  # the right answer in another model's name
    other_version_every: int = 0
    reset_every: int = 0
    truncate_every: int = 0
    never_every: int = 0
    slow_every: int = 0
    slow_s: float = 0.1  # between the first piece of a slow response and its last
    slow_pieces: int = 10
    awake: bool = False  # polls and never sleeps, at the price of a core: no wake-up comes before its arrival times
    certificate: str = ""  # a PEM file with certificate and key: TLS on the port, and another one without for the log
    client_ca: str = ""  # a PEM file: only clients with a certificate of this CA
    authorization: str = ""  # what the field must be in each request; 401 otherwise

    def __post_init__(self) -> None:
        if self.stall_s and self.stall_every_s <= self.stall_s:
            raise ValueError(f"stall_every_s={self.stall_every_s} must be longer than stall_s={self.stall_s}")
        if self.slow_pieces < 2:
            raise ValueError(f"slow_pieces={self.slow_pieces} must be at least 2")

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The model's inputs, without the batch dimension."""
        return tuple(Tensor.parse(text) for text in self.inputs)

    @property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """The model's outputs, without the batch dimension."""
        return tuple(Tensor.parse(text) for text in self.outputs)

    def service_ns(self, number: int) -> int:
        """Return the service time of the one server for inference request `number`; 0 without a capacity."""
        if not self.capacity_per_s:
            return 0
        times = random.Random(number).expovariate(1.0) if self.exponential else 1.0  # noqa: S311 - no secret
        return math.ceil(times * 1e9 / self.capacity_per_s)

    def kind(self, number: int) -> str:
        """Return the fate of inference request `number` (from 1): one of KINDS, or "ok"."""
        for kind in KINDS:
            every: int = getattr(self, f"{kind}_every")
            if every and number % every == 0:
                return kind
        return "ok"

    def after_stall_ns(self, time_ns: int, anchor_ns: int) -> int:
        """`time_ns`, or the end of the stall that it falls into."""
        first_ns = anchor_ns + round(self.stall_phase_s * 1e9)
        if not self.stall_s or time_ns < first_ns:
            return time_ns
        period_ns, stall_ns = round(self.stall_every_s * 1e9), round(self.stall_s * 1e9)
        into_ns = (time_ns - first_ns) % period_ns
        return time_ns - into_ns + stall_ns if into_ns < stall_ns else time_ns
