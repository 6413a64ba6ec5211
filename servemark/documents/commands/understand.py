"""Documents of the commands that explain what was measured."""

from typing import Annotated, ClassVar

from msgspec import Meta

from servemark.documents.commands import (
    NoCeilings,
    OneDevice,
    Only,
    Out,
    Reported,
    Repository,
    Resume,
    SuiteName,
    Workload,
)
from servemark.documents.commands.measure import Asked
from servemark.documents.fields import MODELS, Count, Natural, Word, argument, option
from servemark.documents.request import Precision
from servemark.errors import OptionError
from servemark.paths import MODEL_REPOSITORY, RESULTS
from servemark.quantities import SECONDS, whole


class Explain(Asked, frozen=True, kw_only=True):
    """Say why requests are slow, the usual and the slowest, in one sentence, with the change that would help.

    Of 440 causes that were planted, 428 were named rightly (docs/results/explained.txt). --try measures the change.

    Example: servemark explain ranking --request-rate 400 --duration 30 --try

    Example: servemark explain resnet50 --concurrency 4 --duration 20 --ladder
    """

    workload: Annotated[
        Word,
        argument(
            "Workload to run and explain, or a result directory of `run --explain`.",
            "WORKLOAD|RESULT",
            name="model",
            completion="workload",
        ),
    ]
    try_it: Annotated[bool, option("Measure the fix against now, in interleaved rounds on one server.", name="try")] = (
        False
    )
    ladder: Annotated[
        bool, option("Measure the latency rung by rung, from the engine's operators to p99 under the load.")
    ] = False
    rounds: Annotated[Count, option("Interleaved rounds of --try and --ladder; 5 have an interval.")] = 5


class Profile(Reported, frozen=True, kw_only=True):
    """Time one warm inference by operator and layer, as each engine's own profiler sees it, and measure its memory.

    The result directory also gets the timeline for speedscope and for Chrome's trace viewer. Exit code 2: an engine
    could not be profiled.

    Example: servemark profile resnet50 --report

    Example: servemark profile ranking -b 8 --engine onnxruntime --batches 1,2,4,8
    """

    TAKES: ClassVar = frozenset({MODELS})
    workload: Workload
    precision: Precision = "fp32"
    engine: Annotated[
        tuple[str, ...], option("Engine; repeatable.", metavar="ENGINE", shown_default="those installed")
    ] = ()
    batch_size: Annotated[Count, option("Samples of the inference.", short="-b")] = 1
    batches: Annotated[
        str,
        option("Batch sizes of the memory curve, like 1,2,4,8; none: no memory.", metavar="B,...", shown_default="-b"),
    ] = ""
    device: OneDevice = "cpu"
    no_ceilings: NoCeilings = False
    budget_s: Annotated[float, Meta(ge=1), option("Leave out what is not done by then.", units=SECONDS)] = 600.0
    resume: Resume = ""
    out: Out = RESULTS
    model_repository: Repository = MODEL_REPOSITORY

    @property
    def memory_batches(self) -> list[int]:
        """The batch sizes of which the memory is measured. Raises OptionError."""
        if self.batches == "none":
            return []
        return [whole("--batches", each, 1) for each in self.batches.split(",")] if self.batches else [self.batch_size]


class Calibrate(Reported, frozen=True, kw_only=True):
    """Measure how wrong this load generator is on this machine, and others beside it.

    A golden server on loopback has known delays, and logs what really came. Exit code 2: the machine is too unquiet to
    tell; 4: an error is beyond the limits.

    Example: servemark calibrate --peers wrk,hey --report
    """

    peers: Annotated[str, option("Others beside it, like wrk,hey; all: what is installed; none.", metavar="P,...")] = (
        "all"
    )
    cases: Annotated[str, option("Some of the cases, like stall,queue; all.", metavar="C,...")] = "all"
    full: Annotated[bool, option("Longer loads, and three rounds.")] = False
    resume: Resume = ""
    out: Out = RESULTS


class Characterise(Reported, frozen=True, kw_only=True):
    """Measure each workload of a suite on each engine, cluster them, and test which few stand for all.

    The result directory gets the data of each figure as CSV. Exit code 2: a workload failed somewhere. Ctrl-C keeps
    what there is, and --resume goes on with it.

    Example: servemark characterise aibench --report

    Example: servemark characterise own --engines onnxruntime,openvino@int8 --size 2
    """

    TAKES: ClassVar = frozenset({MODELS})
    suite: SuiteName
    engines: Annotated[
        str,
        option(
            "Engines, a reduced precision behind @: onnxruntime,openvino@int8. Features are of the first.",
            metavar="E,...",
            shown_default="those installed",
        ),
    ] = ""
    batches: Annotated[str, option("Batch sizes beside 1, like 4,16; none.", metavar="B,...")] = "8"
    size: Annotated[Count, option("Number of workloads that stand for all.")] = 3
    starts: Annotated[Natural, option("Fresh server starts of each workload; variation needs 4. 0: none.")] = 4
    seeds: Annotated[Count, option("Seeds that t-SNE is run with.")] = 10
    duration_s: Annotated[float, Meta(ge=0.1), option("Seconds of each measurement, at the least.", units=SECONDS)] = (
        3.0
    )
    device: OneDevice = "cpu"
    only: Only = ()
    no_ceilings: NoCeilings = False
    resume: Annotated[str, option("Go on with this one, which keeps its own options.", metavar="DIR")] = ""
    out: Out = RESULTS
    model_repository: Repository = MODEL_REPOSITORY


class Synthesise(Reported, frozen=True, kw_only=True):
    """Make a network whose layers have the statistics of the given workloads, and hold it against them.

    The result directory gets NAME.py, a workload file: `servemark run NAME --workload-file DIR/NAME.py`.

    Example: servemark synthesise googlenet vgg16 resnet50 resnet152 densenet121 --name cnns

    Example: servemark synthesise googlenet resnet50 --engines onnxruntime,openvino --held-out vgg16

    Example: servemark synthesise transformer nmt --name translators
    """

    TAKES: ClassVar = frozenset({MODELS})
    workloads: Annotated[tuple[str, ...], argument("Workloads that it shall stand for.", "WORKLOAD...")]
    name: Annotated[str, option("Name of the network, a workload from then on.", metavar="NAME")] = "synthetic"
    seed: Annotated[Natural, option("Seed of the search.")] = 0
    engines: Annotated[
        str, option("Also time it beside its workloads on these, like onnxruntime,openvino@int8.", metavar="E,...")
    ] = ""
    batches: Annotated[str, option("Batch sizes beside 1 for that; none.", metavar="B,...")] = "8"
    held_out: Annotated[
        tuple[str, ...], option("Workload that it is not made of, to be timed as well; repeatable.", metavar="WORKLOAD")
    ] = ()
    out: Out = RESULTS
    model_repository: Repository = MODEL_REPOSITORY

    def __post_init__(self) -> None:
        if self.held_out and not self.engines:
            raise OptionError("--held-out is for times", fix="add --engines onnxruntime,openvino")
