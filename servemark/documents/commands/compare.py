"""Documents of the commands that compare."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from servemark.documents.commands import Command, Json, Loaded, Reported, Resume, Workload, existing
from servemark.documents.fields import COMPARE, MODELS, TUNE, Count, NotNegative, argument, option
from servemark.documents.flags import request_of
from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.paths import RESULTS
from servemark.quantities import PERCENT, SECONDS

TUNE_BUDGET_S = 540.0
"""Time budget of the trials of one tuning."""


class Compare(Loaded, frozen=True, kw_only=True):
    """Compare engines or servers in interleaved rounds, or saved results with each other.

    Without --duration each turn lasts as long as the slowest engine needs for a verdict, 8 to 120 s.

    Example: servemark compare resnet50 --engines onnxruntime,pytorch

    Example: servemark compare resnet50 --engines onnxruntime,openvino --rounds 20 --until-decided

    Example: servemark compare ranking --servers triton,mlserver,litserve --concurrency 8

    Example: servemark compare resnet50 --urls main=http://127.0.0.1:8000,pr=http://127.0.0.1:9000 --fail-on p99

    Example: servemark compare results/before results/after --fail-on regression

    Example: servemark compare results/latest --baseline main --fail-on regression
    """

    TAKES: ClassVar = frozenset({COMPARE, MODELS})
    USUAL: ClassVar = {"duration": "", "warmup": "1"}
    what: Annotated[
        tuple[str, ...], argument("A workload, or two saved results.", "WORKLOAD | RESULT_A RESULT_B", name="model")
    ]
    engines: Annotated[
        str, option("Engines, each ENGINE[@PRECISION][:KEY=VALUE]; all are compared with A.", metavar="A,B[,C]")
    ] = ""
    servers: Annotated[
        str, option("Server products, each SERVER[:batching=off]; `servemark servers` lists them.", metavar="A,B[,C]")
    ] = ""
    sweep: Annotated[
        str,
        option(
            "Each engine with each combination: precision, instances, batch, engine options.",
            metavar="'KEY=A,B KEY=C,D'",
        ),
    ] = ""
    urls: Annotated[
        str,
        option(
            "Running servers, each with its own of --engines if several; all are compared with A.",
            metavar="[NAME=]A,[NAME=]B",
        ),
    ] = ""
    baseline: Annotated[
        str, option("Compare a saved result with the one that `servemark baseline NAME` kept.", metavar="NAME")
    ] = ""
    rounds: Annotated[Count, option("Interleaved rounds.")] = 5
    until_decided: Annotated[bool, option("Stop early once each engine equals A, or differs beyond chance.")] = False
    server_per_turn: Annotated[bool, option("Start a new server for each turn.")] = False
    skip_unavailable: Annotated[bool, option("Leave out what cannot be used here, and say why.")] = False
    max_rate: Annotated[bool, option("Search each engine's highest rate that meets --slo, after the rounds.")] = False
    tuned: Annotated[bool, option("Tune each engine for --slo first, but keep its config.pbtxt.")] = False
    tune_budget_s: Annotated[
        float, Meta(ge=1), option("Seconds to tune each engine; a trial under way is finished.", units=SECONDS)
    ] = TUNE_BUDGET_S
    resume: Resume = ""
    fail_on: Annotated[
        str,
        option(
            "Exit with 5 if B is worse, with 2 if undecided: regression, or p99,throughput,errors,...",
            metavar="FIGURES",
        ),
    ] = ""
    threshold: Annotated[NotNegative, option("Smallest difference that counts as a regression.", units=PERCENT)] = 5.0
    allow_invalid: Annotated[bool, option("Judge every run, INVALID ones too.")] = False
    markdown: Annotated[str, option("Saved results: write the answer and the table as Markdown.", metavar="FILE")] = ""
    json: Json = False

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

    def search_load(self, duration: str) -> ConstantRate:
        """Make the load of a run of a search for the highest rate, but for its rate. Raises OptionError."""
        own = {name: self.given[name] for name in ("request_distribution", "gamma_cv", "warmup")}
        load = request_of({**own, "request_rate": "1", "duration": duration}).load
        assert isinstance(load, ConstantRate)
        return load

    def require_fit(self, run: RunRequest) -> None:
        """Refuse what contradicts each other among what is compared, and the runs of it. Raises OptionError."""
        given = {"--urls": self.urls, "--servers": self.servers, "--engines": self.engines, "--sweep": self.sweep}
        flag = next(name for name, value in given.items() if value)
        if len(self.what) != 1:
            fix = f"one WORKLOAD with {flag}, or two results without"
            raise OptionError(f"{flag} with {len(self.what)} workloads", fix=fix)
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


class Tune(Loaded, Reported, frozen=True, kw_only=True):
    """Find the config.pbtxt with the highest valid Poisson rate within --slo, and write it where one is better.

    Example: servemark tune ranking --slo p99:20
    """

    TAKES: ClassVar = frozenset({TUNE, MODELS})
    USUAL: ClassVar = {"duration": "6", "warmup": "1"}
    workload: Workload
    budget_s: Annotated[float, Meta(ge=1), option("Seconds for trials; one under way is finished.", units=SECONDS)] = (
        TUNE_BUDGET_S
    )
    oversubscribe: Annotated[bool, option("Try instances times threads up to twice the cores.")] = False
    dry_run: Annotated[bool, option("Measure all the same, and write nothing to the model repository.")] = False
    despite_busy: Annotated[bool, option("Go on where other work disturbs each of the first three runs at a rate.")] = (
        False
    )
    resume: Annotated[str, option("Go on with a tuning, with its flags; the budget may differ.", metavar="DIR")] = ""
    url: Annotated[str, option("None: it starts its own.", short="-u", hidden=True)] = ""


class History(Command, frozen=True, kw_only=True):
    """Follow a figure over all results below a folder, and find where it changed and between which commits.

    Results that measured the same on the same machine are a series. INVALID ones are listed, and not used.

    Example: servemark history results --metric p99 --fail-on regression -o history.html
    """

    folder: Annotated[Path, argument("Folder with results, at any depth.", "DIR", read=existing)]
    metric: Annotated[str, option("p99, throughput.inferences, max_rate, energy.per_inference, ...", metavar="M")] = (
        "p99"
    )
    threshold: Annotated[NotNegative, option("Smaller changes do not count.", units=PERCENT)] = 5.0
    fail_on: Annotated[
        Literal["regression"] | None,
        option("Exit 5 where a latest change is for the worse, 2 where undecided.", metavar="regression"),
    ] = None
    allow_invalid: Annotated[bool, option("Use INVALID and partial results too.")] = False
    out: Annotated[Path | None, option("Write the plots as a page.", short="-o", metavar="FILE")] = None
    json: Json = False


class Baseline(Command, frozen=True, kw_only=True):
    """Keep a result as a baseline, as a copy below `baselines`. Without a NAME, list them.

    Example: servemark baseline main results/before && servemark compare results/after --baseline main --fail-on p99
    """

    name: Annotated[str, argument("The baseline's name, like main.", "[NAME]")] = ""
    result: Annotated[Path, argument("A result directory, or a folder of repeats.", "[RESULT]", read=existing)] = (
        RESULTS / "latest"
    )
    force: Annotated[bool, option("Replace a baseline of this name.")] = False
    json: Json = False
