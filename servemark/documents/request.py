"""The request: everything that is asked of one run, each field declared once.

Command lines, `--config`, the JSON Schema and the reference pages are made from it. A run's process gets it as a file,
its result keeps it as `request`, and `servemark rerun` reads it there.
"""

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from servemark.documents import fields, texts
from servemark.documents.fields import LOADS, MEASURED, MLPERF, RUN, SERVED, Count, Names
from servemark.documents.load import AUTO, ClosedLoop, Load, MaxRate
from servemark.documents.server import Server
from servemark.errors import OptionError
from servemark.machine.scheduling import Priority
from servemark.quantities import SECONDS, SHARES
from servemark.results.objectives import parse_objectives, written

DEFAULT_ENGINE = "onnxruntime"
PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")
ON, OFF = "on", "off"
PRIORITIES = (AUTO, *Priority)
"""Priorities of the sending thread: the best that is permitted for an open loop, or one by name."""
CPU_LATENCY = (AUTO, ON, OFF)
SYNTHETIC, DRAWN, DATASET = "synthetic", ("random", "zero"), "dataset"
"""Inputs that are not a file."""
LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535
DEFAULT_STRING_LENGTH = 128
MAX_SAMPLING_RATE_HZ = 100.0


class Inputs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the requests that are sent."""

    batch_size: Annotated[int, fields.whole("Samples in a request.", short="-b", in_web_ui=True)] = 1
    seed: Annotated[int, fields.whole("Seed of schedule and inputs.", least=0, in_web_ui=True)] = 0
    input_data: Annotated[
        str,
        fields.text(
            "synthetic, random, zero, dataset, or a path (.json, .npz, folder of .npz, real data).",
            names=Names.PATH,
            plain="|".join((SYNTHETIC, *DRAWN, DATASET)),
            in_web_ui=True,
        ),
    ] = SYNTHETIC
    shape: Annotated[
        dict[str, tuple[int, ...]],
        fields.text(
            "random, zero: an input's sizes without the batch, where the model leaves them open; may come again.",
            read=texts.shapes,
            write=texts.shapes_text,
            metavar="NAME:3,224,224",
            repeatable=True,
        ),
    ] = {}
    input_range: Annotated[
        dict[str, tuple[float, float]],
        fields.text(
            "random: an input's least and greatest value; may come again.",
            read=texts.ranges,
            write=texts.ranges_text,
            metavar="NAME:0:30521",
            repeatable=True,
        ),
    ] = {}
    string_length: Annotated[int, fields.whole("random: letters of each string.", least=0)] = DEFAULT_STRING_LENGTH
    string_data: Annotated[str, fields.text("random: this string instead, in each element.", metavar="TEXT")] = ""
    data_root: Annotated[
        str,
        fields.text(
            "Where data sets lie, one folder for each.",
            names=Names.PATH,
            metavar="DIR",
            of_host=True,
            default_below="data",
        ),
    ] = ""


class Objectives(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Objectives and limits that judge the answers."""

    slo: Annotated[
        str,
        fields.text(
            "Objectives, like p50:5,p99:20ms,errors:0.001; MET or MISSED.",
            read=lambda _, given: written(parse_objectives(given)),
            metavar="pXX:MS,...",
            repeatable=True,
            in_web_ui=True,
            commands=MEASURED | {MLPERF},
        ),
    ] = ""
    max_error_rate: Annotated[
        float,
        fields.number(
            "Largest failed share of a valid run.", units=SHARES, least=0, most=1, metavar="X", commands=MEASURED
        ),
    ] = 0.01
    quality: Annotated[
        bool,
        fields.switch("Score the answers by the labels of the data set (--input-data dataset).", commands=LOADS),
    ] = False
    language_model: Annotated[
        str,
        fields.text(
            "Decode what is scored by a beam search with this KenLM model (.arpa or binary), not greedily.",
            names=Names.PATH,
            metavar="FILE",
            commands=SERVED,
        ),
    ] = ""
    lm_alpha: Annotated[
        float | None,
        fields.number(
            optional=True, help_="Weight of the language model; 0.5 if not given.", metavar="X", commands=SERVED
        ),
    ] = None
    lm_beta: Annotated[
        float | None,
        fields.number(
            optional=True,
            help_="Added to a text's score for each word; 1.5 if not given.",
            metavar="X",
            commands=SERVED,
        ),
    ] = None
    beam_width: Annotated[
        Count | None,
        fields.whole(optional=True, help_="Texts that the beam search keeps; 100 if not given.", commands=SERVED),
    ] = None

    def __post_init__(self) -> None:
        weights = {"--lm-alpha": self.lm_alpha, "--lm-beta": self.lm_beta, "--beam-width": self.beam_width}
        if given := [flag for flag, value in weights.items() if value is not None and not self.language_model]:
            raise OptionError(f"{given[0]} has no language model", fix="--language-model FILE, or leave it out")


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the process that sends the load."""

    request_timeout_s: Annotated[
        float,
        fields.number(
            "A request unanswered this long after its schedule fails, or after it waited for --max-in-flight.",
            units=SECONDS,
            above=0,
            metavar="S",
        ),
    ] = 30.0
    max_in_flight: Annotated[
        int,
        fields.whole("Open loop: most requests in flight; others wait.", commands=MEASURED | {MLPERF}),
    ] = 1024
    sender_priority: Annotated[
        Literal["auto", "realtime", "slice", "normal"],
        fields.choice(
            "Sending thread: auto (open loop: the best permitted), realtime, slice, normal.",
            PRIORITIES,
            metavar="P",
            commands=MEASURED,
        ),
    ] = AUTO
    cpu_latency_qos: Annotated[
        Literal["auto", "on", "off"],
        fields.choice(
            "Cores kept out of idle states while it sends: auto (a virtual machine, the server elsewhere), on, off.",
            CPU_LATENCY,
            metavar="Q",
            commands=MEASURED,
        ),
    ] = AUTO
    workers: Annotated[
        int, fields.whole("Processes that send the load, each a share of it.", of_locust=False, commands={RUN})
    ] = 1


class Live(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records of the run, and views of it while it goes on."""

    out: Annotated[
        str,
        fields.text("Where result directories are made.", names=Names.PATH, metavar="DIR", default_below="results"),
    ] = ""
    request_log: Annotated[
        bool, fields.switch("Keep each request's times: requests.csv in the result.", commands=MEASURED)
    ] = False
    explain: Annotated[
        bool,
        fields.switch(
            "Explain the slowest requests: the server's trace of each (Triton), the queue replayed.",
            of_locust=False,
            commands={RUN},
        ),
    ] = False
    power_command: Annotated[
        str,
        fields.text(
            "Meter energy by this command: one figure in watts a line, until it is ended.",
            names=Names.PROGRAM,
            metavar="CMD",
            commands=MEASURED,
        ),
    ] = ""
    power_boundary: Annotated[
        str, fields.text("What that command meters; wall if not given.", metavar="NAME", commands=MEASURED)
    ] = ""
    sampling_rate_hz: Annotated[
        float,
        fields.number(
            "Readings of CPU, GPU and power a second, for series.json; 0: none.",
            least=0,
            most=MAX_SAMPLING_RATE_HZ,
            metavar="HZ",
            commands=MEASURED,
        ),
    ] = 10.0
    metrics_port: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_PORT)] | None,
        fields.whole(
            optional=True,
            help_="Prometheus metrics of the run while it goes on, at this port; 0: a free one.",
            least=0,
            most=MAX_PORT,
            names=Names.HOST,
            metavar="PORT",
            commands=MEASURED | {MLPERF},
        ),
    ] = None
    metrics_host: Annotated[
        str,
        fields.text("Where that port listens.", names=Names.HOST, metavar="HOST", commands=MEASURED | {MLPERF}),
    ] = LOOPBACK
    metrics_grace_s: Annotated[
        float,
        fields.number(
            "Leave the final metrics at that port for so long after the run, or until Ctrl-C.",
            units=SECONDS,
            least=0,
            metavar="S",
            commands=MEASURED | {MLPERF},
        ),
    ] = 0.0
    push_gateway: Annotated[
        str,
        fields.text(
            "Push the metrics to a Prometheus Pushgateway, every 5 s and at the end.",
            names=Names.HOST,
            metavar="URL",
            commands=MEASURED | {MLPERF},
        ),
    ] = ""
    otlp: Annotated[
        str,
        fields.text(
            "Send the metrics to this OpenTelemetry collector (HTTP), every 5 s and at the end.",
            names=Names.HOST,
            metavar="URL",
            commands=MEASURED | {MLPERF},
        ),
    ] = ""
    otlp_sample: Annotated[
        Count | None,
        fields.whole(
            optional=True,
            help_="HTTP: one in N requests carries a W3C traceparent, and its span goes to --otlp.",
            commands=LOADS | {MLPERF},
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.metrics_grace_s and self.metrics_port is None:
            raise OptionError("--metrics-grace is for the port of the metrics", fix="add --metrics-port PORT")
        if self.otlp_sample and not self.otlp:
            raise OptionError("--otlp-sample has nowhere to send its spans", fix="add --otlp URL")
        if self.power_boundary and not self.power_command:
            raise OptionError("--power-boundary needs --power-command", fix="--power-command CMD, or leave it out")


class RunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is asked of one run."""

    workload: Annotated[str, fields.text("Workload.", name="model", in_web_ui=True, commands=())] = ""
    engine: Annotated[str, fields.text("Inference engine, by Triton's backend name.", in_web_ui=True, commands=())] = (
        DEFAULT_ENGINE
    )
    precision: Annotated[
        Literal["fp32", "fp16", "bf16", "int8", "fp8"],
        fields.choice(
            f"What the engine computes in: {', '.join(PRECISIONS)}.",
            PRECISIONS,
            metavar="P",
            in_web_ui=True,
            commands=(),
        ),
    ] = "fp32"
    workload_files: Annotated[
        tuple[str, ...],
        fields.text(
            "Python file of a workload of your own, or a folder of them; may be given again.",
            name="workload_file",
            names=Names.PROGRAM,
            metavar="PATH",
            repeatable=True,
            many=True,
            of_locust=False,
            commands=(),
        ),
    ] = ()
    imports_dir: Annotated[
        str,
        fields.text(
            "Where `servemark import` keeps models.",
            names=Names.PROGRAM,
            metavar="DIR",
            of_locust=False,
            commands=(),
        ),
    ] = ""
    server: Server = field(default_factory=Server)
    load: Load = field(default_factory=ClosedLoop)
    inputs: Inputs = field(default_factory=Inputs)
    objectives: Objectives = field(default_factory=Objectives)
    limits: Limits = field(default_factory=Limits)
    live: Live = field(default_factory=Live)

    def __post_init__(self) -> None:
        server, by_http = self.server, self.protocol == "http" and self.server.shared_memory == "none"
        searches, workers = isinstance(self.load, MaxRate), self.limits.workers
        if searches and not self.objectives.slo:
            raise OptionError("--max-rate needs an objective", fix="give one, like --slo p99:50")
        if server.in_process and (server.is_asked or searches or workers > 1):
            raise OptionError(
                "--in-process has no server", fix="leave out what is for a server, --max-rate and --workers"
            )
        if self.objectives.quality and workers > 1:
            raise OptionError("--quality scores what one process has sent", fix="leave out --workers")
        if "json" in {server.input_tensor_format, server.output_tensor_format} and not by_http:
            raise OptionError(
                "JSON tensors are for HTTP without shared memory", fix="--protocol http, or leave them out"
            )
        if server.streaming and self.protocol != "grpc":
            raise OptionError("--streaming is a way of gRPC", fix="add --protocol grpc")
        if self.live.otlp_sample and not by_http:
            raise OptionError("--otlp-sample is for HTTP without shared memory", fix="--protocol http")
        if server.request_parameters and server.shared_memory != "none":
            raise OptionError(
                "--request-parameter travels in messages, not in shared memory", fix="leave one of them out"
            )
        if self.live.explain and (
            searches or workers > 1 or server.in_process or server.sequence_length or server.streaming
        ):
            raise OptionError(
                "--explain is for one process that sends single requests to a server at one load",
                fix="leave out --max-rate, --workers, --in-process, --sequence-length, --streaming",
            )
        if self.live.explain and (server.shared_memory != "none" or self.live.otlp_sample):
            raise OptionError(
                "--explain gives each request an id of its own, in messages without shared memory and traceparent",
                fix="leave out --shared-memory, --otlp-sample",
            )
        if server.sequence_length and (self.live.otlp_sample or server.shared_memory != "none"):
            raise OptionError(
                "--sequence-length excludes --otlp-sample and --shared-memory", fix="leave out what is not needed"
            )

    @property
    def protocol(self) -> str:
        """Protocol of the server: http or grpc."""
        return "grpc" if self.server.protocol == "grpc" or re.match(r"\s*grpcs?://", self.server.url) else "http"


GROUPS: dict[str, type[Struct]] = {
    "server": Server,
    "inputs": Inputs,
    "objectives": Objectives,
    "limits": Limits,
    "live": Live,
}
Request = TypeVar("Request", bound=RunRequest)


def changed(request: Request, **values: Any) -> Request:
    """Return the request with other values of fields, by their names, whatever their groups."""
    groups: dict[str, dict[str, Any]] = {}
    own = {name: values.pop(name) for name in RunRequest.__struct_fields__ if name in values}
    for name, value in values.items():
        group = next(group for group, kind in GROUPS.items() if name in kind.__struct_fields__)
        groups.setdefault(group, {})[name] = value
    nested = {group: msgspec.structs.replace(getattr(request, group), **new) for group, new in groups.items()}
    return msgspec.structs.replace(request, **own, **nested)
