"""Behaviour of the tests' golden server: known delays, and answers that are broken in every way."""

from dataclasses import dataclass
from typing import ClassVar

from servemark.calibration.golden import behaviour
from tests.golden.tensors import Tensor


@dataclass(frozen=True)
class Behaviour(behaviour.Behaviour):
    """Known behaviour by construction; every `*_every` counts inference requests from 1 and 0 turns it off."""

    kinds: ClassVar[tuple[str, ...]] = (
        "never", "reset", "truncate", "error", "wrong_shape", "wrong_datatype", "wrong_value", "other_model",
        "other_version", "slow",
    )  # fmt: skip

    aliases: tuple[str, ...] = ()  # other names of the same model, with a record of paths and the statistics in common
    inputs: tuple[str, ...] = ("INPUT0:FP32:64",)
    outputs: tuple[str, ...] = ("OUTPUT0:FP32:64",)
    optional: tuple[str, ...] = ()  # names of inputs that a request may leave out
    max_batch_size: int = 64  # 0: the tensors have no batch dimension
    configuration: bool = True  # whether it tells Triton's configuration of the model
    metadata: bool = True  # whether it tells the model's tensors; MLServer does not where its settings have none
    infer_only: bool = False  # answers nothing of the protocol but inference, as a server of 30 lines may
    json_api: str = ""  # speaks this API of tests.golden.json_apis instead of KServe v2
    json_only: bool = False  # knows no binary tensors, and answers 500 to them, as MLServer 1.7 does
    answers: str = ""  # a golden.npz whose outputs to answer with, instead of the inputs
    error_every: int = 0
    error_status: int = 500
    wrong_shape_every: int = 0
    wrong_datatype_every: int = 0
    wrong_value_every: int = 0
    other_model_every: int = 0  # the right answer in another model's name
    other_version_every: int = 0
    truncate_every: int = 0
    never_every: int = 0
    slow_every: int = 0
    slow_s: float = 0.1  # between the first piece of a slow response and its last
    slow_pieces: int = 10
    certificate: str = ""  # a PEM file with certificate and key: TLS on the port, and another one without for the log
    client_ca: str = ""  # a PEM file: only clients with a certificate of this CA
    compresses: bool = False  # takes gzip, and answers so where a request accepts it
    unix: str = ""  # the path of a socket at which it listens too
    authorization: str = ""  # what the field must be in each request; 401 otherwise

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def delay_ns(self, number: int) -> int:
        """A slow response's last piece comes later."""
        slow_ns = round(self.slow_s * 1e9) if self.kind(number) == "slow" else 0
        return super().delay_ns(number) + slow_ns
