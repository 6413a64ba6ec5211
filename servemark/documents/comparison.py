"""The request of a comparison: what is compared, how, and what a gate makes of it. Its runs are a `RunRequest`."""

from typing import Annotated

from msgspec import Struct

from servemark.documents import fields
from servemark.documents.fields import Names
from servemark.documents.load import ClosedLoop
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.quantities import PERCENT, SECONDS

TUNE_BUDGET_S = 540.0
"""Time budget of the trials of one tuning."""


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
