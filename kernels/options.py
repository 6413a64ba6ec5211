"""Options of `servemark kernels`, each declared once."""

from typing import Annotated, Literal

from msgspec import Struct

from kernels.libraries import TORCH
from kernels.measurement.precisions import PRECISIONS
from servemark.documents import fields
from servemark.documents.commands import OneDevice, Out
from servemark.documents.fields import Names
from servemark.errors import OptionError
from servemark.quantities import SECONDS, one_of

DEFAULT_SUITE = "quick"
DEFAULT_PRECISIONS = ("fp32",)


class KernelsOptions(Struct, frozen=True, kw_only=True):
    """The kernels that are timed, and how."""

    suite: Annotated[
        str, fields.text("Table of sizes; --list shows them.", metavar="SUITE", shown_default=DEFAULT_SUITE)
    ] = ""
    workload: Annotated[str, fields.text("Take the kernels that this workload executes.", metavar="WORKLOAD")] = ""
    batch_size: Annotated[int, fields.whole("Samples of the inference of --workload.", short="-b")] = 1
    device: OneDevice = "cpu"
    precision: Annotated[
        tuple[str, ...],
        fields.text(
            "fp32, tf32, bf16, fp16, int8, fp8; may come again.",
            metavar="PRECISION",
            repeatable=True,
            many=True,
            shown_default="fp32",
        ),
    ] = ()
    library: Annotated[str, fields.text("torch, onnxruntime, openvino, tensorflow: side by side.", metavar="A[,B]")] = (
        TORCH
    )
    cache: Annotated[
        Literal["hot", "cold"],
        fields.choice("Whether calls find their data in the cache.", ("hot", "cold"), metavar="hot|cold"),
    ] = "hot"
    case_limit_s: Annotated[
        float, fields.number("Skip a case that would take longer.", units=SECONDS, least=1, metavar="S")
    ] = 60.0
    published: Annotated[bool, fields.switch("Show DeepBench's published figures of the same sizes beside.")] = False
    out: Out = ""
    new_ceilings: Annotated[bool, fields.switch("Measure ceilings again that an earlier run has kept.")] = False
    resume: Annotated[str, fields.text("Go on with a run that was cut short.", names=Names.PATH, metavar="DIR")] = ""

    def __post_init__(self) -> None:
        for name in self.precision:
            one_of("--precision", name, PRECISIONS)
        if self.workload and self.suite:
            raise OptionError(f"--workload with --suite {self.suite}", fix="leave one of them out")
        if self.workload and self.precision not in ((), DEFAULT_PRECISIONS):
            named = " ".join(self.precision)
            raise OptionError(f"--workload with --precision {named}: models compute in fp32 here", fix="fp32")
