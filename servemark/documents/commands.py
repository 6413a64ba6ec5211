"""Options of commands besides those of a run's request, each declared once like a request's."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from servemark.documents import fields
from servemark.documents.fields import Names
from servemark.documents.live import LOOPBACK, MAX_PORT
from servemark.documents.load import ClosedLoop
from servemark.documents.request import RunRequest
from servemark.documents.server import Device, EngineOptions, Instances
from servemark.errors import OptionError
from servemark.quantities import PERCENT, RATES, SECONDS, whole

Out = Annotated[str, fields.text("Where results are made.", names=Names.PATH, metavar="DIR", default_below="results")]
Only = Annotated[
    tuple[str, ...],
    fields.text("Only this one of the suite; more than once.", metavar="WORKLOAD", repeatable=True, many=True),
]
OneDevice = Annotated[str, fields.text("cpu or cuda:N.", metavar="DEVICE")]
Resume = Annotated[
    str,
    fields.text("Go on with one that was cut short, with the same options.", names=Names.PATH, metavar="DIR"),
]
NoCeilings = Annotated[bool, fields.switch("Leave out the ceilings, and the shares of them.")]
TUNE_BUDGET_S = 540.0
"""Time budget of the trials of one tuning."""


class Serving(Struct, frozen=True, kw_only=True):
    """Options of `servemark serve`: where an engine runs, and where Triton listens."""

    device: Device = ""
    engine_options: EngineOptions = ()
    instances: Instances = None
    http_port: Annotated[
        int, fields.whole("KServe v2 over HTTP; 0 picks a free port.", least=0, most=MAX_PORT, metavar="PORT")
    ] = 8000
    grpc_port: Annotated[
        int, fields.whole("KServe v2 over gRPC; 0 picks a free port.", least=0, most=MAX_PORT, metavar="PORT")
    ] = 8001
    metrics_port: Annotated[
        int, fields.whole("Prometheus metrics; 0 picks a free port.", least=0, most=MAX_PORT, metavar="PORT")
    ] = 8002
    host: Annotated[str, fields.text("Address to listen on.")] = LOOPBACK
    mode: Annotated[str, fields.text("auto, embedded, native (tritonserver on PATH) or docker.")] = "auto"
    start_timeout_s: Annotated[
        float, fields.number("Give up when not ready by then.", units=SECONDS, least=0, metavar="S")
    ] = 120.0
    otlp: Annotated[
        str, fields.text("Collector (OTLP, HTTP) for spans of requests that carry a traceparent.", metavar="URL")
    ] = ""


class Explaining(Struct, frozen=True, kw_only=True):
    """Options of `servemark explain`: what is measured besides the run."""

    try_it: Annotated[
        bool, fields.switch("Measure the fix against now, in interleaved rounds on one server.", name="try_")
    ] = False
    ladder: Annotated[
        bool, fields.switch("Measure the latency rung by rung, from the engine's operators to p99 under the load.")
    ] = False
    rounds: Annotated[int, fields.whole("Interleaved rounds of --try and --ladder; 5 have an interval.")] = 5


class Tuning(Struct, frozen=True, kw_only=True):
    """Options of `servemark tune`: the budget of the search, and what becomes of its result."""

    budget_s: Annotated[
        float,
        fields.number(
            "Seconds for trials; one that is under way then is finished.", units=SECONDS, least=1, metavar="S"
        ),
    ] = TUNE_BUDGET_S
    oversubscribe: Annotated[bool, fields.switch("Try instances times threads up to twice the cores.")] = False
    dry_run: Annotated[bool, fields.switch("Measure all the same, and write nothing to the model repository.")] = False
    despite_busy: Annotated[
        bool, fields.switch("Go on where other work disturbs each of the first three runs at a rate.")
    ] = False
    resume: Annotated[
        str,
        fields.text("Go on with a tuning, with its flags; the budget may differ.", names=Names.PATH, metavar="DIR"),
    ] = ""


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


class Mlperf(Struct, frozen=True, kw_only=True):
    """Options of `servemark mlperf`: the settings of LoadGen."""

    scenario: Annotated[
        str, fields.choice("SingleStream, MultiStream, Server or Offline.", tuple(MlperfScenario), metavar="S")
    ]
    target_qps: Annotated[float, fields.number("Server: arrivals/s.", units=RATES, least=0, metavar="R")] = 0.0
    min_duration_s: Annotated[float, fields.number("The rules ask for 600.", units=SECONDS, least=0.1, metavar="S")] = (
        60.0
    )
    min_queries: Annotated[int, fields.whole("LoadGen's early stopping judges fewer.")] = 100

    def __post_init__(self) -> None:
        if self.scenario == MlperfScenario.SERVER and not self.target_qps:
            raise OptionError("the Server scenario needs the rate of its arrivals", fix="--target-qps 100")


class Suite(Struct, frozen=True, kw_only=True):
    """Options of `servemark suite`: the part of it that is run, and the load of each."""

    concurrency: Annotated[int, fields.whole("Requests in flight.")] = 2
    published: Annotated[bool, fields.switch("ai-matrix: its batches, beside the figures that it publishes.")] = False
    precision: Annotated[
        tuple[str, ...],
        fields.text(
            "With --published: only this one of fp32, fp16, int8; more than once.",
            metavar="P",
            repeatable=True,
            many=True,
            shown_default="all",
        ),
    ] = ()
    only: Only = ()
    duration_s: Annotated[
        float, fields.number("Measured seconds, at the least.", units=SECONDS, least=0.1, metavar="S")
    ] = 5.0
    warmup_s: Annotated[
        float, fields.number("Seconds before, which do not count.", units=SECONDS, least=0, metavar="S")
    ] = 1.0
    out: Out = ""
    remove: Annotated[bool, fields.switch("Remove each exported model after its run.")] = False
    dry_run: Annotated[bool, fields.switch("Say what would run and about how long it takes, and run nothing.")] = False


class Calibrating(Struct, frozen=True, kw_only=True):
    """Options of `servemark calibrate`: the load generators, the cases, and for how long."""

    peers: Annotated[
        str, fields.text("Others beside it, like wrk,hey; all: what is installed; none.", metavar="P,...")
    ] = "all"
    cases: Annotated[str, fields.text("Some of the cases, like stall,queue; all.", metavar="C,...")] = "all"
    full: Annotated[bool, fields.switch("Longer loads, and three rounds.")] = False
    out: Out = ""


class Characterising(Struct, frozen=True, kw_only=True):
    """Options of `servemark characterise`: the engines, the batches, the repeats, and how many stand for all."""

    engines: Annotated[
        str,
        fields.text(
            "Engines, a reduced precision behind @: onnxruntime,openvino@int8. Features are of the first.",
            metavar="E,...",
            shown_default="those installed",
        ),
    ] = ""
    batches: Annotated[str, fields.text("Batch sizes beside 1, like 4,16; none.", metavar="B,...")] = "8"
    size: Annotated[int, fields.whole("Number of workloads that stand for all.")] = 3
    starts: Annotated[
        int, fields.whole("Fresh server starts of each workload; variation needs 4. 0: none.", least=0)
    ] = 4
    seeds: Annotated[int, fields.whole("Seeds that t-SNE is run with.")] = 10
    duration_s: Annotated[
        float, fields.number("Seconds of each measurement, at the least.", units=SECONDS, least=0.1, metavar="S")
    ] = 3.0
    device: OneDevice = "cpu"
    only: Only = ()
    no_ceilings: NoCeilings = False
    resume: Annotated[
        str,
        fields.text("Go on with this one, which keeps its own options.", names=Names.PATH, metavar="DIR"),
    ] = ""
    out: Out = ""


class Synthesising(Struct, frozen=True, kw_only=True):
    """Options of `servemark synthesise`: the network's name, the search, and what it is measured on."""

    name: Annotated[str, fields.text("Name of the network, a workload from then on.", metavar="NAME")] = "synthetic"
    seed: Annotated[int, fields.whole("Seed of the search.", least=0)] = 0
    engines: Annotated[
        str,
        fields.text("Also time it beside its workloads on these, like onnxruntime,openvino@int8.", metavar="E,..."),
    ] = ""
    batches: Annotated[str, fields.text("Batch sizes beside 1 for that; none.", metavar="B,...")] = "8"
    held_out: Annotated[
        tuple[str, ...],
        fields.text(
            "Workload that it is not made of, to be timed as well; may come again.",
            metavar="WORKLOAD",
            repeatable=True,
            many=True,
        ),
    ] = ()
    out: Out = ""

    def __post_init__(self) -> None:
        if self.held_out and not self.engines:
            raise OptionError("--held-out is for times", fix="add --engines onnxruntime,openvino")


PROFILE_BUDGET_S = 600.0


class Profiling(Struct, frozen=True, kw_only=True):
    """Options of `servemark profile`: the engines, the batch, and for how long."""

    engine: Annotated[
        tuple[str, ...],
        fields.text(
            "Engine; may come again.", metavar="ENGINE", repeatable=True, many=True, shown_default="those installed"
        ),
    ] = ()
    batch_size: Annotated[int, fields.whole("Samples of the inference.", short="-b")] = 1
    batches: Annotated[
        str,
        fields.text(
            "Batch sizes of the memory curve, like 1,2,4,8; none: no memory.", metavar="B,...", shown_default="-b"
        ),
    ] = ""
    device: OneDevice = "cpu"
    no_ceilings: NoCeilings = False
    budget_s: Annotated[
        float, fields.number("Leave out what is not done by then.", units=SECONDS, least=1, metavar="S")
    ] = PROFILE_BUDGET_S
    out: Out = ""

    @property
    def memory_batches(self) -> list[int]:
        """The batch sizes of which the memory is measured. Raises OptionError."""
        if self.batches == "none":
            return []
        return [whole("--batches", each, 1) for each in self.batches.split(",")] if self.batches else [self.batch_size]


class Comparison(Struct, frozen=True, kw_only=True):
    """Options of a comparison besides those of its runs."""

    engines: Annotated[
        str, fields.text("Engines; ENGINE[@PRECISION][:KEY=VALUE]. A is the first.", metavar="A,B[,C]")
    ] = ""
    servers: Annotated[
        str,
        fields.text(
            "Server products with ONNX Runtime's entry; SERVER[:batching=off]. `servemark servers` lists them.",
            metavar="A,B[,C]",
        ),
    ] = ""
    sweep: Annotated[
        str,
        fields.text(
            "Each engine with each combination: precision, instances, batch, engine options.",
            metavar="'KEY=A,B KEY=C,D'",
        ),
    ] = ""
    urls: Annotated[
        str,
        fields.text(
            "Servers that run already, of one engine or of one of --engines each. A is the first.",
            names=Names.HOST,
            metavar="[NAME=]A,[NAME=]B",
        ),
    ] = ""
    baseline: Annotated[
        str, fields.text("A saved result: compare it with what `servemark baseline NAME` kept.", metavar="NAME")
    ] = ""
    rounds: Annotated[int, fields.whole("Interleaved rounds.")] = 5
    until_decided: Annotated[
        bool,
        fields.switch("Stop once each engine is told apart from the first, or equal; --rounds is the most."),
    ] = False
    server_per_turn: Annotated[bool, fields.switch("A server of its own for each turn.")] = False
    skip_unavailable: Annotated[bool, fields.switch("Leave out what cannot be used here, and say why.")] = False
    max_rate: Annotated[
        bool, fields.switch("Search each engine's highest rate that meets --slo, after the rounds.")
    ] = False
    tuned: Annotated[bool, fields.switch("Tune each engine for --slo first, as servemark tune does; writes none.")] = (
        False
    )
    tune_budget_s: Annotated[
        float,
        fields.number(
            "Seconds to tune each engine; a trial that is under way then is finished.",
            units=SECONDS,
            least=1,
            metavar="S",
        ),
    ] = TUNE_BUDGET_S
    resume: Resume = ""
    fail_on: Annotated[
        str,
        fields.text(
            "Exit 5 where B is worse, 2 where undecided: regression, or p99,throughput,errors,...", metavar="FIGURES"
        ),
    ] = ""
    threshold: Annotated[
        float,
        fields.number("Smallest difference that counts as a regression.", units=PERCENT, least=0, metavar="PERCENT"),
    ] = 5.0
    allow_invalid: Annotated[bool, fields.switch("Judge runs too that are not fit to be compared.")] = False
    markdown: Annotated[
        str,
        fields.text("Saved results: write the answer and the table as Markdown.", names=Names.PATH, metavar="FILE"),
    ] = ""

    @property
    def of_saved(self) -> bool:
        """Tell whether saved results are compared, and nothing is measured. Raises OptionError."""
        measured = bool(self.engines or self.servers or self.urls or self.sweep)
        if self.resume and (self.tuned or not measured):
            why = "--tuned would tune anew" if measured else "saved results are compared at once"
            raise OptionError(f"--resume goes on with rounds, and {why}", fix="leave out --resume")
        if measured and self.baseline:
            raise OptionError(
                "--baseline is compared with a saved result", fix="servemark compare RESULT --baseline NAME"
            )
        return not measured

    def require_fit(self, what: list[str], run: RunRequest) -> None:
        """Refuse what contradicts each other among what is compared, and the runs of it. Raises OptionError."""
        given = {"--urls": self.urls, "--servers": self.servers, "--engines": self.engines, "--sweep": self.sweep}
        flag = next(name for name, value in given.items() if value)
        if len(what) != 1:
            fix = f"one WORKLOAD with {flag}, or two results without"
            raise OptionError(f"{flag} with {len(what)} workloads", fix=fix)
        others = {"--engines": self.engines, "--urls": self.urls, "--url": run.server.url, "--tuned": self.tuned}
        others["--device"] = run.server.device not in {"", "cpu"}
        if self.servers and (name := next((name for name, value in others.items() if value), None)):
            raise OptionError(
                f"--servers with {name}: servers are started with ONNX Runtime on the CPU", fix=f"leave out {name}"
            )
        if self.urls and run.server.url:
            raise OptionError("--urls with --url", fix="name all servers with --urls")
        if self.until_decided and self.fail_on:
            raise OptionError(
                "--until-decided with --fail-on: a gate judges a number of rounds that is chosen before",
                fix="leave one out",
            )
        if (self.max_rate or self.tuned) and not run.objectives.slo:
            flag = "--max-rate" if self.max_rate else "--tuned"
            raise OptionError(f"{flag} needs an objective", fix="give one, like --slo p99:50")
        if self.tuned and not self.max_rate and isinstance(run.load, ClosedLoop):
            raise OptionError(
                "--tuned with a closed loop: engines are tuned for requests that come by themselves, "
                "and a closed loop's wait for the answers before them",
                fix="add --max-rate, or an open load like --request-rate 100; or leave out --tuned",
            )
