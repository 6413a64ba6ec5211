"""The request: everything that is asked of one run, each field declared once.

Command lines, `--config`, the JSON Schema and the reference pages are made from it. A run's process gets it as a file,
its result keeps it as `request`, and `servemark rerun` reads it there.
"""

import re
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct, field

from servemark.documents import texts
from servemark.documents.fields import (
    ALL,
    COMPARE,
    IMPORT,
    LOADS,
    MAX_SEED,
    MEASURED,
    MLPERF,
    MODELS,
    RUN,
    Count,
    File,
    Names,
    Natural,
    Positive,
    Program,
    Share,
    Word,
    folder,
    given_in,
    name_of,
    option,
)
from servemark.documents.live import Live
from servemark.documents.load import AUTO, ClosedLoop, Load, MaxRate
from servemark.documents.server import Server
from servemark.errors import OptionError
from servemark.paths import DATA_ROOT, IMPORTS
from servemark.quantities import SECONDS, SHARES
from servemark.results.objectives import COLD_START, COUNTED, RECOVERY, parse_objectives, written

DEFAULT_ENGINE = "onnxruntime"
_Precision = Literal["fp32", "fp16", "bf16", "int8", "fp8"]
PRECISIONS: tuple[str, ...] = get_args(_Precision)
"""Precisions of an artifact's arithmetic; fp32 is the reference and the default."""
ON, OFF = "on", "off"
PROCESS_CLOCK = "process"
SYNTHETIC, DRAWN, DATASET = "synthetic", ("random", "zero"), "dataset"
"""Inputs that are not a file."""
DEFAULT_STRING_LENGTH = 128
ABORTING = "pXX:LIMIT, service_pXX:LIMIT, or errors:SHARE"
"""Limits of --abort-on."""


Engine = Annotated[
    Word, option("Inference engine, by Triton's backend name.", in_web_ui=True, commands=ALL - {COMPARE})
]
Precision = Annotated[
    _Precision,
    option(f"Number format that the engine computes in: {', '.join(PRECISIONS)}.", metavar="P", in_web_ui=True),
]


class Inputs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the requests that are sent."""

    batch_size: Annotated[Count, option("Samples in a request.", short="-b", in_web_ui=True)] = 1
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED), option("Seed of schedule and inputs.", in_web_ui=True)] = 0
    input_data: Annotated[
        Annotated[str, Names.PATH, re.compile("|".join((SYNTHETIC, *DRAWN, DATASET)))],
        option("synthetic, random, zero, dataset, or a path (.json, .npz, folder of .npz, real data).", in_web_ui=True),
    ] = SYNTHETIC
    shape: Annotated[
        dict[Word, tuple[int, ...]],
        option(
            "random, zero: an input's open sizes, without the batch; repeatable.",
            read=texts.shapes,
            write=texts.shapes_text,
            metavar="NAME:3,224,224",
            repeatable=True,
            commands=ALL | {IMPORT},
        ),
    ] = {}
    input_range: Annotated[
        dict[Word, tuple[int | float, int | float]],
        option(
            "random: least and greatest value of an input; repeatable.",
            read=texts.ranges,
            write=texts.ranges_text,
            metavar="NAME:0:30521",
            repeatable=True,
            commands=ALL | {IMPORT},
        ),
    ] = {}
    string_length: Annotated[Natural, option("random: length of each string.", commands=ALL | {IMPORT})] = (
        DEFAULT_STRING_LENGTH
    )
    string_data: Annotated[
        Word, option("random: this text in place of random strings.", metavar="TEXT", commands=ALL | {IMPORT})
    ] = ""
    data_root: Annotated[File, folder("Where data sets lie, one folder for each.", DATA_ROOT, of_host=True)] = ""


class Objectives(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Objectives and limits that judge the answers."""

    slo: Annotated[
        Word,
        option(
            "Objectives, which the run meets or misses, like p99:20ms,errors:0.001,server.queue:2ms.",
            read=lambda _, given: written(parse_objectives(given)),
            metavar="FIGURE:LIMIT",
            repeatable=True,
            in_web_ui=True,
            commands=MEASURED | {MLPERF},
        ),
    ] = ""
    max_error_rate: Annotated[
        Share, option("Largest share of failed requests in a VALID run.", units=SHARES, metavar="X", commands=MEASURED)
    ] = 0.01
    quality: Annotated[
        bool, option("Score the answers by the labels of the data set (--input-data dataset).", commands=LOADS)
    ] = False
    language_model: Annotated[
        File, option("Decode scored answers by beam search with this KenLM model (.arpa or binary), not greedily.")
    ] = ""
    lm_alpha: Annotated[float | None, option("Weight of the language model; 0.5 if not given.", metavar="X")] = None
    lm_beta: Annotated[
        float | None, option("Added to a text's score for each word; 1.5 if not given.", metavar="X")
    ] = None
    beam_width: Annotated[Count | None, option("Texts that the beam search keeps; 100 if not given.")] = None

    def __post_init__(self) -> None:
        weights = {"--lm-alpha": self.lm_alpha, "--lm-beta": self.lm_beta, "--beam-width": self.beam_width}
        if given := [flag for flag, value in weights.items() if value is not None and not self.language_model]:
            raise OptionError(f"{given[0]} has no language model", fix="--language-model FILE, or leave it out")


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the process that sends the load."""

    request_timeout_s: Annotated[
        Positive,
        option(
            "Fail a request unanswered this long after it was due or waited for --max-in-flight.",
            units=SECONDS,
            commands=ALL,
        ),
    ] = 30.0
    request_cancellation: Annotated[
        tuple[Annotated[float, Meta(gt=0, le=texts.MAX_CANCELLED)], Annotated[float, Meta(ge=0)]] | None,
        option(
            "Give up this share of the requests when unanswered S after sending, like 0.05:0.2.",
            read=texts.cancellation,
            write=texts.numbers_text,
            metavar="SHARE:S",
            commands=LOADS,
        ),
    ] = None
    max_in_flight: Annotated[
        Count, option("Open loop: most requests in flight; others wait in the generator.", commands=MEASURED | {MLPERF})
    ] = 1024
    abort_on: Annotated[
        Word,
        option(
            "End the run early, as INVALID, once the requests so far break a limit, like errors:0.1,p99:500ms.",
            metavar="pXX:MS,...",
        ),
    ] = ""
    sender_priority: Annotated[
        Literal["auto", "realtime", "slice", "normal"],
        option(
            "Priority of the sending thread: auto (open loop: the best permitted), realtime, slice, normal.",
            metavar="P",
        ),
    ] = AUTO
    cpu_latency_qos: Annotated[
        Literal["auto", "on", "off"],
        option("Keep cores from idling: auto (on a virtual machine, with the server elsewhere), on, off.", metavar="Q"),
    ] = AUTO
    receive_clock: Annotated[
        Literal["auto", "process"],
        option("Clock of the answers: auto (the kernel's packet stamps, if any), process.", metavar="C"),
    ] = AUTO
    workers: Annotated[
        Count, option("Processes that send the load, each a share of it.", of_locust=False, commands={RUN})
    ] = 1

    def __post_init__(self) -> None:
        limits = parse_objectives(self.abort_on, "--abort-on", ABORTING)
        if late := [each for each in limits if each.figure not in COUNTED]:
            raise OptionError(f"--abort-on has no {late[0].name}: it is known at the end", fix=ABORTING)


class RunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is asked of one run."""

    workload: Annotated[Word, option("Workload.", name="model", in_web_ui=True, commands=())] = ""
    engine: Engine = DEFAULT_ENGINE
    precision: Precision = "fp32"
    workload_files: Annotated[
        tuple[Program, ...],
        option(
            "Python file of a workload of your own, or a folder of them; repeatable.",
            name="workload_file",
            metavar="PATH",
            of_locust=False,
            commands={MODELS},
        ),
    ] = ()
    imports_dir: Annotated[
        Program, folder("Where `servemark import` keeps models.", IMPORTS, of_locust=False, commands={MODELS})
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
        server.check_ids(self.protocol)
        _check_exclusions(self)
        if server.streaming and self.protocol != "grpc":
            raise OptionError("--streaming is for gRPC", fix="add --protocol grpc")
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
        _check_transients(self)
        if server.sequence_length and (self.live.otlp_sample or server.shared_memory != "none"):
            raise OptionError(
                "--sequence-length excludes --otlp-sample and --shared-memory", fix="leave out what is not needed"
            )

    @property
    def protocol(self) -> str:
        """Protocol of the server: http or grpc."""
        return (
            "grpc" if self.server.protocol == "grpc" or re.match(r"\s*grpc(s?://|\+unix:)", self.server.url) else "http"
        )


def _check_transients(request: RunRequest) -> None:
    """Check that what an objective is about is asked for too. Raises OptionError."""
    figures = {slo.figure for slo in parse_objectives(request.objectives.slo)}
    if RECOVERY in figures and not request.live.at:
        raise OptionError("--slo recovery is that from a command", fix="add --at S:COMMAND")
    if COLD_START in figures and not request.server.cold_start:
        raise OptionError("--slo cold-start is about a server's start", fix="add --cold-start")


def _check_exclusions(request: RunRequest) -> None:
    """Check that options which exclude each other are not given together. Raises OptionError."""
    server = request.server
    parts: list[Struct] = [getattr(request, group) for group in GROUPS]
    given = {f"--{name_of(type(part), name).replace('_', '-')}" for part in parts for name in given_in(part)}
    others = {
        "--url with several servers": "," in server.url,
        "--max-rate": isinstance(request.load, MaxRate),
        "--warmup": request.load.warmup not in (AUTO, 0),
    }
    given |= {words for words, holds in others.items() if holds}
    for flag, excluded in _EXCLUDED.items():
        if flag in given and (other := next((each for each in excluded if each in given), None)):
            raise OptionError(f"{flag} excludes {other}", fix="leave one of them out")
    if not server.endpoint_type:
        return
    if other := next((flag for flag in _ONLY_KSERVE if flag in given), None):
        raise OptionError(f"--endpoint-type is not KServe v2, and excludes {other}", fix="leave one out")
    if not server.url:
        raise OptionError("--endpoint-type is for a server that runs already", fix="add --url http://HOST:PORT")


_EXCLUDED = {
    "--url with several servers": ("--sequence-length", "--shared-memory", "--explain", "--otlp-sample", "--workers"),
    "--no-connection-reuse": ("--sequence-length", "--shared-memory", "--streaming", "--explain", "--workers"),
    "--request-compression": ("--sequence-length", "--shared-memory", "--streaming", "--explain", "--workers"),
    "--response-compression": ("--shared-memory", "--streaming", "--workers"),
    "--request-cancellation": (
        "--url with several servers",
        "--sequence-length",
        "--shared-memory",
        "--streaming",
        "--explain",
        "--in-process",
        "--otlp-sample",
        "--workers",
    ),
    "--at": ("--max-rate",),
    "--cold-start": ("--warmup", "--at", "--max-rate", "--workers", "--explain"),
}
"""Options, and those that each excludes."""
_ONLY_KSERVE = (
    "--shared-memory",
    "--input-tensor-format",
    "--output-tensor-format",
    "--request-parameter",
    "--sequence-length",
    "--bls-composing-models",
    "--otlp-sample",
    "--explain",
    "--in-process",
    "--streaming",
)

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
