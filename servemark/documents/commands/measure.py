"""Documents of the commands that measure."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from servemark.documents import texts
from servemark.documents.commands import (
    Command,
    Json,
    Loaded,
    OneDevice,
    Only,
    Out,
    Report,
    Reported,
    Repository,
    Resume,
    SuiteName,
    Trust,
    Verbose,
    Workload,
    existing,
)
from servemark.documents.fields import MLPERF, MODELS, QUALITY, RUN, Count, NotNegative, Read, Word, argument, option
from servemark.documents.flags import KINDS, OPTIONS
from servemark.documents.load import MaxRate
from servemark.documents.request import DEFAULT_ENGINE, Engine, RunRequest
from servemark.errors import OptionError
from servemark.paths import MODEL_REPOSITORY, RESULTS
from servemark.quantities import RATES, SECONDS, number, text_of, whole

DEFAULT_KERNELS = "quick"


def _span(words: str, read: Read) -> Any:
    """Declare a range of values, one run for each."""
    return option(words, read=texts.span(read), write=lambda _: "", metavar="S:E[:STEP]")


class Asked(Loaded, frozen=True, kw_only=True):
    """One run, as `run` and `explain` are asked for it."""

    TAKES: ClassVar = frozenset({RUN, MODELS})
    config: Annotated[
        str,
        option(
            "The request of a run as YAML; `servemark init` writes one. Command-line options override it.",
            metavar="FILE",
        ),
    ] = ""
    trust: Trust = False
    report: Report = False
    json: Json = False
    verbose: Verbose = False


class Run(Asked, frozen=True, kw_only=True):
    """Measure one workload under load and judge the run.

    Example: servemark run resnet50 --request-rate 10 --slo p90:200
    """

    workload: Annotated[
        Word,
        argument(
            "Workload, a mix like ranking=0.7,ncf=0.3, an entry of the model repository, or with --url any model.",
            "WORKLOAD",
            name="model",
            completion="workload",
        ),
    ]
    concurrency_range: Annotated[
        tuple[float, ...], _span("One run for each concurrency.", lambda flag, text: whole(flag, text, 1))
    ] = ()
    request_rate_range: Annotated[
        tuple[float, ...], _span("One run for each rate.", lambda flag, text: number(flag, text, RATES))
    ] = ()
    repeat: Annotated[Count, option("Runs at each load, each with the next seed.")] = 1
    resume: Resume = ""

    def points(self) -> list[dict[str, str]]:
        """Return the options of each run besides those that all of them share, by name. Raises OptionError."""
        ranges = {"concurrency": self.concurrency_range, "request_rate": self.request_rate_range}
        named = [OPTIONS[name].spelled for name in reversed(KINDS) if self.given.get(name)]
        named += [f"{OPTIONS[name].spelled}-range" for name, given in ranges.items() if given]
        if len(named) > 1:
            raise OptionError(f"{' and '.join(named)} exclude each other", fix="give one of them")
        return [{name: text_of(value)} for name, given in ranges.items() for value in given] or [{}]

    def require_fit(self, request: RunRequest) -> None:
        """Refuse a series of runs that this one, the first of them, cannot have. Raises OptionError."""
        if self.repeat > 1 and isinstance(request.load, MaxRate):
            raise OptionError("--max-rate and --repeat exclude each other", fix="the search repeats what it finds")
        if self.resume and not isinstance(request.load, MaxRate):
            raise OptionError("--resume goes on with a search: --max-rate", fix="leave out --resume")
        if "=" in request.workload:
            self._require_mix(request)

    def _require_mix(self, request: RunRequest) -> None:
        """Refuse what a mix of workloads cannot have. Raises OptionError."""
        others = {
            "--concurrency-range": self.concurrency_range,
            "--request-rate-range": self.request_rate_range,
            "--max-rate": isinstance(request.load, MaxRate),
            "--repeat": self.repeat > 1,
            "--in-process": request.server.in_process,
            "--cold-start": request.server.cold_start,
            "--model-name": request.server.model_name,
            "--device": request.server.device,
            "--workers": request.limits.workers > 1,
            "--engine-option": request.server.engine_options,
            "--instances": request.server.instances,
        }
        if given := ", ".join(flag for flag, value in others.items() if value):
            raise OptionError(f"a mix has no {given}", fix=f"leave out {given}")


class Suite(Reported, frozen=True, kw_only=True):
    """Export and load every workload of a suite, and show one table.

    The result directory gets suite.json and suite.md, a page with machine, notes and table; both are complete after
    each workload.

    Example: servemark suite subset --concurrency 2 --duration 5

    Example: servemark suite ai-matrix --published --precision fp32 --concurrency 1 --dry-run
    """

    TAKES: ClassVar = frozenset({MODELS})
    name: SuiteName
    engine: Engine = DEFAULT_ENGINE
    concurrency: Annotated[Count, option("Requests in flight.")] = 2
    published: Annotated[bool, option("ai-matrix: its batches, beside the figures that it publishes.")] = False
    precision: Annotated[
        tuple[str, ...],
        option(
            "With --published: only this one of fp32, fp16, int8; more than once.", metavar="P", shown_default="all"
        ),
    ] = ()
    only: Only = ()
    duration_s: Annotated[float, Meta(ge=0.1), option("Measured seconds, at the least.", units=SECONDS)] = 5.0
    warmup_s: Annotated[NotNegative, option("Seconds before, which do not count.", units=SECONDS)] = 1.0
    out: Out = RESULTS
    resume: Resume = ""
    remove: Annotated[bool, option("Remove each exported model after its run.")] = False
    dry_run: Annotated[bool, option("Say what would run and about how long it takes, and run nothing.")] = False
    model_repository: Repository = MODEL_REPOSITORY


class MlperfScenario(StrEnum):
    """Pattern in which queries arrive (MLPerf Inference rules, "Scenarios")."""

    SINGLE_STREAM = "SingleStream"
    """The next query when the last is answered."""
    MULTI_STREAM = "MultiStream"
    """The same with 8 samples in a query."""
    SERVER = "Server"
    """Poisson arrivals at the target rate, with a bound on the tail latency."""
    OFFLINE = "Offline"
    """All samples at once; throughput alone counts."""


USUAL_DURATION_S, USUAL_QUERIES = 60.0, 100


class Mlperf(Loaded, Reported, frozen=True, kw_only=True):
    """Run an MLPerf scenario through the official LoadGen.

    The Server scenario's bound is --slo, else that of MLPerf's round, else the workload's own objective.

    Example: servemark mlperf ranking --scenario Server --target-qps 500 --min-duration 60
    """

    TAKES: ClassVar = frozenset({MLPERF, MODELS})
    workload: Workload
    scenario: Annotated[MlperfScenario, option("SingleStream, MultiStream, Server or Offline.", metavar="S")]
    target_qps: Annotated[NotNegative, option("Server: arrivals/s.", units=RATES)] = 0.0
    min_duration_s: Annotated[float, Meta(ge=0.1), option("The rules ask for 600.", units=SECONDS)] = USUAL_DURATION_S
    min_queries: Annotated[Count, option("LoadGen's early stopping judges fewer.")] = USUAL_QUERIES
    official: Annotated[
        bool, option("The round's duration and number of queries, for a workload of the suite mlperf-inference.")
    ] = False
    accuracy: Annotated[
        bool,
        option("Accuracy mode: score the labelled data set once by its metric.", name="quality", short="--accuracy"),
    ] = False

    def __post_init__(self) -> None:
        if self.scenario == MlperfScenario.SERVER and not self.target_qps:
            raise OptionError("the Server scenario needs the rate of its arrivals", fix="--target-qps 100")
        if self.official and (self.min_duration_s, self.min_queries) != (USUAL_DURATION_S, USUAL_QUERIES):
            raise OptionError("--official brings its own --min-duration and --min-queries", fix="leave them out")


class Quality(Loaded, Reported, frozen=True, kw_only=True):
    """Send a labelled data set through a server, and compute the field's metric of the answers.

    Failed requests count as wrong. An interrupted run continues. Exit code 4: trained weights miss the target.

    Example: servemark quality ncf_ml100k --samples 200
    """

    TAKES: ClassVar = frozenset({QUALITY, MODELS})
    USUAL: ClassVar = {"input_data": "dataset", "concurrency": "4"}
    workload: Workload
    samples: Annotated[Count | None, option("Number of examples: a random subset, drawn by --seed.")] = None
    fresh: Annotated[bool, option("Begin anew, also where a run was interrupted.")] = False


class Kernels(Reported, frozen=True, kw_only=True):
    """Check and time kernels, and say which ceiling bounds each.

    The result is complete after each case: --resume goes on with a run that was ended. Ceilings are kept in
    `ceilings.json` beside the results, for the next run on this machine.

    Example: servemark kernels gemm convolution --suite quick

    Example: servemark kernels --workload resnet50 -b 8
    """

    TAKES: ClassVar = frozenset({MODELS})
    family: Annotated[tuple[str, ...], argument("Families; all by default.", "[FAMILY]...")] = ()
    suite: Annotated[
        str,
        option(
            "Table of sizes; --list shows them.", metavar="SUITE", shown_default=DEFAULT_KERNELS, completion="suite"
        ),
    ] = ""
    workload: Annotated[
        Word, option("Take the kernels that this workload executes.", metavar="WORKLOAD", completion="workload")
    ] = ""
    batch_size: Annotated[Count, option("Samples of the inference of --workload.", short="-b")] = 1
    device: OneDevice = "cpu"
    precision: Annotated[
        tuple[str, ...],
        option("fp32, tf32, bf16, fp16, int8, fp8; repeatable.", metavar="PRECISION", shown_default="fp32"),
    ] = ()
    library: Annotated[str, option("torch, onnxruntime, openvino, tensorflow: side by side.", metavar="A[,B]")] = (
        "torch"
    )
    cache: Annotated[
        Literal["hot", "cold"], option("Whether calls find their data in the cache.", metavar="hot|cold")
    ] = "hot"
    case_limit_s: Annotated[float, Meta(ge=1), option("Skip a case that would take longer.", units=SECONDS)] = 60.0
    published: Annotated[bool, option("Show DeepBench's published figures of the same sizes beside.")] = False
    out: Out = RESULTS
    new_ceilings: Annotated[bool, option("Measure ceilings again that an earlier run has kept.")] = False
    resume: Annotated[str, option("Go on with a run that was cut short.", metavar="DIR")] = ""

    listing: Annotated[bool, option("Show suites and families, and measure nothing.", name="list")] = False

    def __post_init__(self) -> None:
        if self.workload and self.suite:
            raise OptionError(f"--workload with --suite {self.suite}", fix="leave one of them out")
        if self.workload and self.precision not in ((), ("fp32",)):
            named = " ".join(self.precision)
            raise OptionError(f"--workload with --precision {named}: models compute in fp32 here", fix="fp32")


class Rerun(Command, frozen=True, kw_only=True):
    """Run again what made a result. Options of `run` after RESULT come before the result's.

    A program, a path or a host that the result names is shown, and is taken after a yes or with --trust.

    Example: servemark rerun results/latest --duration 60
    """

    PASSES_ON: ClassVar = True
    result: Annotated[Path, argument("A result directory, or its result.json.", "RESULT", read=existing)]
    options: Annotated[tuple[str, ...], argument("Options of `run`.", "[OPTION]...")] = ()
    print_only: Annotated[
        bool, option("Print the options as a file for `run --config`, and run nothing.", name="print")
    ] = False
    trust: Trust = False
