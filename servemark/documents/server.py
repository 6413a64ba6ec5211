"""The server that a run asks, as its request has it.

Its `request_parameters` are KServe v2's `parameters` of every request, by perf_analyzer's flag.
Source: Open Inference Protocol, "Inference Request"; Triton's parameters extension.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from servemark.documents import texts
from servemark.documents.fields import (
    ALL,
    COMPARE,
    LOADS,
    MLPERF,
    QUALITY,
    RUN,
    Count,
    File,
    Host,
    Names,
    Share,
    Word,
    folder,
    given_in,
    option,
)
from servemark.documents.load import AUTO
from servemark.errors import OptionError
from servemark.paths import MODEL_REPOSITORY
from servemark.quantities import INT64, SHARES, UINT64, number, one_of, text_of, whole

FLAG = "--request-parameter"
TYPES = {bool: "bool", int: "int", float: "double", str: "string"}
"""Names of the types on the command line."""
OF_SEQUENCES = {"sequence_id", "sequence_start", "sequence_end"}
"""Parameters that --sequence-length sends."""
Parameters = dict[Word, bool | int | float | Word]
_WHOLE = re.compile(rf"([^:,]+):(.*):({'|'.join(TYPES.values())})")
_DIGITS = re.compile("[-+]?[0-9]{1,19}")
Tensors = dict[Word, tuple[Word, tuple[int, ...]]]
"""Name -> datatype and shape, as a server's metadata would have them."""
TensorFormat = Literal["auto", "binary", "json"]
Compression = Literal["none", "gzip"]

Device = Annotated[
    Word,
    option("cpu or cuda:N; default: as in the model's config.pbtxt.", metavar="DEVICE", of_locust=False, commands=ALL),
]
_EngineOption = Annotated[str, Names.PROGRAM, re.compile(r"[a-z0-9_]+(=(true|false|[0-9.]+)?)?")]
"""Triton's EXECUTION_ENV_PATH names a Python to run."""
EngineOptions = Annotated[
    tuple[_EngineOption, ...],
    option(
        "The engine's own parameter, like compile=true; repeatable.",
        name="engine_option",
        metavar="KEY[=VALUE]",
        of_locust=False,
        commands=ALL - {COMPARE},
    ),
]
Instances = Annotated[
    Count | None, option("Instances of the model on each device.", of_locust=False, commands={RUN, MLPERF, QUALITY})
]
MOST_SEQUENCES = 1 << 32
"""More sequences than a run can begin: as many ids have to follow the first."""
_OF_ENGINES = {"device", "engine_options", "instances", "in_process", "model_repository"}
"""Fields that say where an engine runs, and nothing of how a server is asked."""


def parameters_of(text: str) -> Parameters:
    """Read NAME:VALUE:TYPE, several with commas between; a string may hold commas and colons. Raises OptionError."""
    found: dict[str, bool | int | float | str] = {}
    waiting = ""
    for part in (text or "").split(","):
        waiting = f"{waiting},{part}" if waiting else part
        if match := _WHOLE.fullmatch(waiting):
            name, value, kind = match.groups()
            found[name], waiting = _value(value, kind), ""
    if waiting:
        raise OptionError(
            f"{FLAG} {waiting!r} is not NAME:VALUE:TYPE",
            fix=f"like max_tokens:256:int; types: {', '.join(TYPES.values())}",
        )
    if taken := sorted(found.keys() & OF_SEQUENCES):
        raise OptionError(f"{FLAG} {taken[0]} is what --sequence-length sends", fix="--sequence-length N")
    return found


def parameters_text(parameters: Mapping[str, bool | int | float | str]) -> str:
    """The text that `parameters_of` reads so."""
    return ",".join(f"{name}:{_text(value)}:{TYPES[type(value)]}" for name, value in parameters.items())


def _value(text: str, kind: str) -> bool | int | float | str:
    if kind == "bool":
        return one_of(FLAG, text, ("true", "false")) == "true"
    if kind == "int":
        if not _DIGITS.fullmatch(text) or not _is_int64(int(text)):
            raise _not_int64(text)
        return int(text)
    return number(FLAG, text) if kind == "double" else text


def check_parameters(parameters: Mapping[str, bool | int | float | str]) -> None:
    """Check whole numbers that a document gives: the protocol's are of 64 bits with a sign. Raises OptionError."""
    for name, value in parameters.items():
        if isinstance(value, int) and not _is_int64(value):
            raise _not_int64(f"{name}:{value}:int")
    if parameters_of(parameters_text(parameters)) != parameters:
        raise OptionError(
            f"{FLAG}: {dict(parameters)!s:.200} holds a text that reads like NAME:VALUE:TYPE", fix="another text"
        )


def _is_int64(value: int) -> bool:
    return -INT64 - 1 <= value <= INT64


def _not_int64(text: str) -> OptionError:
    return OptionError(f"{FLAG} {text!r} is not a whole number of 64 bits", fix=f"like {FLAG} max_tokens:256:int")


def _text(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return text_of(value) if isinstance(value, float) else str(value)


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server that is asked, and how it is asked."""

    url: Annotated[
        Host,
        option(
            "A running server, http[s]://HOST:PORT or unix:/PATH; several take turns. Without it one is started.",
            short="-u",
            repeatable=True,
            locust_dest="host",
        ),
    ] = ""
    metrics_url: Annotated[
        Host,
        option("The server's Prometheus metrics; default: /metrics at port 8002, where --url has Triton's own ports."),
    ] = ""
    server_processes: Annotated[
        tuple[Word, ...],
        option(
            "Process of the server that no TCP connection leads to; repeatable.",
            name="server_process",
            metavar="NAME|PID",
            commands=LOADS | {MLPERF},
        ),
    ] = ()
    protocol: Annotated[
        Literal["", "http", "grpc"], option("http or grpc; default: http unless --url is grpc[s]://.", short="-i")
    ] = ""
    endpoint_type: Annotated[
        Annotated[str, Names.PATH, re.compile("[a-z0-9-]+")],
        option(
            "API of a server without KServe v2: kserve-v1, tensorflow-serving (also over gRPC), torchserve, "
            "openai-embeddings, rerank, predict, bentoml, or a JSON file that describes it.",
            metavar="TYPE",
            of_host=True,
            commands={RUN, QUALITY},
        ),
    ] = ""
    streaming: Annotated[bool, option("gRPC: one stream for each connection instead of calls.")] = False
    no_connection_reuse: Annotated[
        bool, option("Open a connection for each request, and time its parts.", commands=LOADS)
    ] = False
    request_compression: Annotated[
        Compression, option("none or gzip; requests are compressed before the run.", commands=LOADS)
    ] = "none"
    response_compression: Annotated[
        Compression, option("none or gzip; gzip lets the server compress answers.", commands=LOADS)
    ] = "none"
    headers: Annotated[
        File, option("File with the headers of every request, one `Name: value` a line.", of_host=True)
    ] = ""
    tls_ca: Annotated[File, option("PEM: the CA to trust instead of the system's.", of_host=True)] = ""
    tls_insecure: Annotated[
        bool, option("Do not verify the server's certificate: anybody may answer in its place.")
    ] = False
    client_cert: Annotated[File, option("PEM: the client's certificate (mutual TLS).", of_host=True)] = ""
    client_key: Annotated[File, option("PEM: the client's key, if in another file.", of_host=True)] = ""
    shared_memory: Annotated[
        Literal["none", "system", "cuda"],
        option(
            "Tensors in messages (none), or in memory shared with the server: system, cuda.",
            metavar="KIND",
            commands=LOADS,
        ),
    ] = "none"
    model_name: Annotated[
        Word, option("Model name on the server (default: WORKLOAD_ENGINE).", commands={RUN, QUALITY})
    ] = ""
    model_version: Annotated[Word, option("Model's version; default: the server chooses.", metavar="V", short="-x")] = (
        ""
    )
    input_tensors: Annotated[
        Tensors,
        option(
            "Input of a model without metadata; -1 in front of all shapes means batches; repeatable.",
            name="input",
            read=texts.tensors,
            write=texts.tensors_text,
            metavar="NAME:FP32:-1,4",
            repeatable=True,
            commands={RUN},
        ),
    ] = {}
    output_tensors: Annotated[
        Tensors,
        option(
            "Output of a model without metadata; repeatable.",
            name="output",
            read=texts.tensors,
            write=texts.tensors_text,
            metavar="NAME:FP32:-1,3",
            repeatable=True,
            commands={RUN},
        ),
    ] = {}
    bls_composing_models: Annotated[
        dict[Word, Word],
        option(
            "Models that the model calls (BLS), to show their statistics too.",
            read=texts.versions,
            write=texts.versions_text,
            metavar="A,B:2",
        ),
    ] = {}
    input_tensor_format: Annotated[
        TensorFormat,
        option("HTTP: auto, binary or json; auto is json where the server lists no binary_tensor_data.", metavar="F"),
    ] = AUTO
    output_tensor_format: Annotated[TensorFormat, option("HTTP: the same for answers.", metavar="F")] = AUTO
    request_parameters: Annotated[
        Parameters,
        option(
            "A parameter of every request; TYPE is bool, int, double or string; repeatable.",
            name="request_parameter",
            read=lambda _, given: parameters_of(given),
            write=parameters_text,
            metavar="NAME:VALUE:TYPE",
            repeatable=True,
        ),
    ] = {}
    sequence_length: Annotated[
        Count | None, option("Requests per sequence; they share one correlation ID (stateful models).")
    ] = None
    sequence_length_variation: Annotated[
        Share, option("Draw lengths evenly, at most this share from --sequence-length.", units=SHARES, metavar="SHARE")
    ] = 0.0
    num_of_sequences: Annotated[Count, option("Open loop: concurrent sequences. (Closed loop: use --concurrency.)")] = 4
    start_sequence_id: Annotated[
        int,
        Meta(ge=1),
        option("Correlation ID of the first sequence.", read=lambda what, given: whole(what, given, 1, UINT64)),
    ] = 1
    device: Device = ""
    engine_options: EngineOptions = ()
    instances: Instances = None
    cold_start: Annotated[
        bool,
        option(
            "Start a server for each run, and measure from its first request on: load time, first answer, steady p99.",
            of_locust=False,
            commands={RUN},
        ),
    ] = False
    in_process: Annotated[
        bool, option("Call the engine in this process, without a server.", of_locust=False, commands={RUN, QUALITY})
    ] = False
    model_repository: Annotated[
        File, folder("Triton model repository.", MODEL_REPOSITORY, of_host=True, commands=ALL)
    ] = ""

    def __post_init__(self) -> None:
        check_parameters(self.request_parameters)
        if self.start_sequence_id > UINT64:
            raise OptionError(f"--start-sequence-id {self.start_sequence_id} is above {UINT64}", fix="lower it")
        if self.sequence_length_variation and not self.sequence_length:
            raise OptionError("--sequence-length-variation needs --sequence-length", fix="add --sequence-length N")
        # Of a method that a file describes only the status may be asked.
        if bool(self.input_tensors) != bool(self.output_tensors) and not (self.input_tensors and self.endpoint_type):
            raise OptionError(
                "a model without metadata needs its inputs and its outputs",
                fix="--input NAME:FP32:-1,4 --output NAME:FP32:-1,3",
            )

    def check_ids(self, protocol: str) -> None:
        """Check that the ids of sequences are of the protocol's type to the end of a run. Raises OptionError."""
        most = INT64 if protocol == "grpc" else UINT64  # gRPC: InferParameter.int64_param
        if self.sequence_length and self.start_sequence_id > most - MOST_SEQUENCES:
            raise OptionError(
                f"--start-sequence-id {self.start_sequence_id}: a run's other ids would pass {most}, "
                f"the greatest over {protocol}",
                fix=f"at most --start-sequence-id {most - MOST_SEQUENCES}",
            )

    @property
    def is_asked(self) -> bool:
        """Tell whether a field is given that only a server can have, one that runs already or one of servemark's."""
        return bool(given_in(self) - _OF_ENGINES)
