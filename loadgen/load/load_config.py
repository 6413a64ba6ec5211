"""The configuration of a run: resolved from flags, and written as the command line of a run of its own."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np

from loadgen.load import flags, request_parameters
from loadgen.load.input_options import InputOptions
from loadgen.load.request_parameters import Parameters
from loadgen.load.scenario import ClosedLoop, Scenario, read_scenario
from loadgen.transport.access import Access
from loadgen.transport.server_url import METRICS, metrics_url, normal_url, protocol_of
from servemark.errors import InputDataError, OptionError, parsing
from servemark.quality.ctc import LanguageModel
from servemark.quantities import SECONDS, SHARES, above, at_least, number, one_of, text_of, whole
from servemark.repository.entry import Entry
from servemark.results.objectives import Objectives, parse_objectives, written
from servemark.results.schema.run import Config
from servemark.telemetry.energy.command import words_of
from servemark.telemetry.metrics.destinations import Destinations
from servemark.workload import Tensor, Workload, get
from servemark.workload.agreement import PRECISIONS

MAX_SAMPLING_RATE_HZ = 100.0
Lookup = Callable[[argparse.Namespace], Workload]
"""Finds the workload that options name. Raises OptionError, and ServerError where only a server knows it."""
WALL = "wall"
"""What a power command meters where nothing else is said: the machine's plug."""


def in_zoo(options: argparse.Namespace) -> Workload:
    """The workload of the zoo that options name. Raises OptionError."""
    return get(options.model)


@dataclass(frozen=True)
class LoadConfig:
    """One run, resolved and checked. Times in seconds, rates in requests/s.

    A variant of a run is `dataclasses.replace` of its configuration.
    """

    workload: Workload
    engine: str
    precision: str
    url: str
    metrics_url: str | None
    """Where the server shows what really runs a model, None where that is not known."""
    access: Access
    model_name: str | None
    model_version: str
    """Empty: the server chooses."""
    composing_models: Mapping[str, str]
    """Models that a pipeline calls, as the user names them, with their versions; empty: the server's choice."""
    batch_size: int
    scenario: Scenario
    seed: int
    slo: Objectives
    input_data: str
    inputs: InputOptions
    quality: bool
    """Whether the answers are scored by the labels of the data set."""
    language_model: LanguageModel | None
    """With what the answers that are scored are decoded, None: greedily."""
    data_root: Path
    model_repository: Path
    out: Path
    result_dir: Path | None
    start_file: Path | None
    request_timeout_s: float
    max_in_flight: int
    priority: str
    cpu_latency_qos: str
    max_error_share: float
    streaming: bool
    shared_memory: str
    input_tensor_format: str
    output_tensor_format: str
    request_log: bool
    metrics: Destinations
    """Where the metrics of the run go while it goes on."""
    sampling_rate_hz: float
    """How often this machine's meters are read, 0: never."""
    power: tuple[str, str] | None
    """A command of the user's that meters power, and what it meters."""
    request_parameters: Parameters
    """What every request says to the model beside its tensors."""
    sequence_length: int | None
    """Requests of each sequence, None where they are independent."""
    num_of_sequences: int
    start_sequence_id: int
    command_options: Mapping[str, Any]
    """Options of the command that makes this run, by name, which its load does not have or has otherwise."""

    def __post_init__(self) -> None:
        """Check what has to fit together. Raises OptionError."""
        workload, most = self.workload, max(self.workload.max_batch, 1)
        if self.batch_size > most:
            why = f"above {workload.name}'s maximum of {most}" if workload.batched else "for a model with batches"
            raise OptionError(f"--batch-size {self.batch_size} is {why}", fix=f"give at most --batch-size {most}")
        self._check_inputs()
        as_json = "json" in {self.input_tensor_format, self.output_tensor_format}
        if as_json and (self.protocol != "http" or self.shared_memory != "none"):
            raise OptionError(
                "JSON tensors are for HTTP without shared memory", fix="--protocol http, or leave them out"
            )
        if self.streaming and self.protocol != "grpc":
            raise OptionError("--streaming is a way of gRPC", fix="add --protocol grpc")
        if self.metrics.trace_requests and (self.protocol != "http" or self.shared_memory != "none"):
            raise OptionError("--trace-requests is for HTTP without shared memory", fix="--protocol http")
        if self.request_parameters and self.shared_memory != "none":
            raise OptionError(
                "--request-parameter travels in messages, not in shared memory", fix="leave one of them out"
            )
        if self.sequence_length and (self.metrics.trace_requests or self.shared_memory != "none"):
            raise OptionError(
                "--sequence-length excludes --trace-requests and --shared-memory", fix="leave out what is not needed"
            )

    def _check_inputs(self) -> None:
        """Check that what is said of inputs is said of inputs that there are, and fits them. Raises OptionError."""
        tensors, model = {tensor.name: tensor for tensor in self.workload.inputs}, self.workload.name
        for flag, named in (("--shape", self.inputs.shapes), ("--range", self.inputs.ranges)):
            if unknown := [name for name in named if name not in tensors]:
                raise OptionError(
                    f"{flag} names {unknown[0]!r}, which is no input of {model}", fix=f"one of: {', '.join(tensors)}"
                )
        for name, shape in self.inputs.shapes.items():
            if not (tensor := tensors[name]).fits(shape):
                raise OptionError(
                    f"--shape {name}:{','.join(map(str, shape))} does not fit {model}'s {name} "
                    f"{tensor.datatype}{list(tensor.shape)}",
                    fix="give each size that is -1 there, and repeat the others; the batch is --batch-size",
                )
        for name, (least, most) in self.inputs.ranges.items():
            if (why := out_of_range(tensors[name], least, most)) is not None:
                raise OptionError(
                    f"--range {name}:{text_of(least)}:{text_of(most)} {why}", fix="--range NAME:LEAST:MOST"
                )

    @property
    def address(self) -> str:
        """The server as --url names it, the place of its metrics included."""
        return f"{self.url}{METRICS}{urlsplit(self.metrics_url).netloc}" if self.metrics_url else self.url

    @property
    def protocol(self) -> str:
        """How the server is asked: http or grpc."""
        return protocol_of(self.url)

    @property
    def entry(self) -> Entry:
        """The model's entry in the local repository, which holds the golden outputs."""
        return Entry(self.model_repository, self.workload.name, self.engine, self.precision)

    @property
    def model(self) -> str:
        """The model's name on the server."""
        return self.model_name or self.entry.model

    @property
    def wire_batch(self) -> int:
        """The batch size in shapes, 0 where they have none."""
        return self.batch_size if self.workload.batched else 0

    @property
    def lead(self) -> tuple[int, ...]:
        """What a request's shapes begin with before a sample's: the batch size, or nothing."""
        return (self.wire_batch,) if self.wire_batch else ()

    @property
    def open_loop(self) -> bool:
        """Whether a schedule decides when requests go out."""
        return not isinstance(self.scenario, ClosedLoop)

    @property
    def concurrency(self) -> int | None:
        """Requests that a closed loop keeps in flight, None for an open one."""
        return self.scenario.concurrency if isinstance(self.scenario, ClosedLoop) else None

    @property
    def most_in_flight(self) -> int:
        """Requests that may be in flight; a sequence has one at most."""
        return self.concurrency or (self.num_of_sequences if self.sequence_length else self.max_in_flight)

    @property
    def duration_s(self) -> float:
        """Measured seconds."""
        return self.scenario.duration_s

    @property
    def warmup_s(self) -> float:
        """Seconds before, which do not count."""
        return self.scenario.warmup_s

    @property
    def windows(self) -> int:
        """How many windows the measured interval has."""
        return sum(self.scenario.windows_per_stage)

    @classmethod
    def parse(cls, arguments: Sequence[str], lookup: Lookup = in_zoo) -> "LoadConfig":
        """Read a command line of load flags, as `arguments` writes it. Raises OptionError, InputDataError."""
        parser = argparse.ArgumentParser(allow_abbrev=False)
        flags.add_arguments(parser, [""], locust=False)
        return cls.from_options(parser.parse_args(arguments), lookup)

    @classmethod
    def from_options(cls, options: argparse.Namespace, lookup: Lookup = in_zoo) -> "LoadConfig":
        """Resolve parsed options; Locust's web UI gives text for what was None. Raises OptionError, InputDataError."""
        workload = lookup(options)
        batch_size = whole("--batch-size", options.batch_size, 1)
        share = number("--max-error-share", options.max_error_share, SHARES)
        if not 0 <= share <= 1:
            raise OptionError(f"--max-error-share {share:g} is no share", fix="give a number from 0 to 1")
        url, metrics = server_address(options)
        return cls(
            workload=workload,
            engine=options.engine,
            precision=one_of("--precision", options.precision, PRECISIONS),
            url=url,
            metrics_url=metrics,
            access=Access.from_options(options, url),
            model_name=workload.name if workload.served else options.model_name or None,
            model_version=options.model_version or "",
            composing_models=_composing(options.bls_composing_models),
            batch_size=batch_size,
            scenario=read_scenario(options),
            seed=whole("--seed", options.seed, 0),
            slo=parse_objectives(options.slo),
            input_data="dataset" if options.quality and options.input_data == "synthetic" else options.input_data,
            inputs=InputOptions.from_options(options),
            quality=bool(options.quality),
            language_model=_language_model(options),
            data_root=Path(options.data_root),
            model_repository=Path(options.model_repository),
            out=Path(options.out),
            result_dir=Path(options.result_dir) if options.result_dir else None,
            start_file=Path(options.start_file) if options.start_file else None,
            request_timeout_s=above("--request-timeout", options.request_timeout, 0, SECONDS),
            max_in_flight=whole("--max-in-flight", options.max_in_flight, 1),
            priority=one_of("--priority", options.priority, flags.PRIORITIES),
            cpu_latency_qos=one_of("--cpu-latency-qos", options.cpu_latency_qos, flags.CPU_LATENCY),
            max_error_share=share,
            streaming=options.streaming,
            shared_memory=one_of("--shared-memory", options.shared_memory, flags.SHARED_MEMORY),
            input_tensor_format=_tensor_format("input", options),
            output_tensor_format=_tensor_format("output", options),
            request_log=options.request_log,
            metrics=Destinations.from_options(options),
            sampling_rate_hz=_sampling_rate(options.sampling_rate),
            power=_power(options.power_command, options.power_boundary),
            request_parameters=request_parameters.parse(options.request_parameter),
            sequence_length=whole("--sequence-length", options.sequence_length, 1) if options.sequence_length else None,
            num_of_sequences=whole("--num-of-sequences", options.num_of_sequences, 1),
            start_sequence_id=whole("--start-sequence-id", options.start_sequence_id, 1),
            command_options=_command_options(options.command_options),
        )

    def at(self, address: str) -> "LoadConfig":
        """The same run against another server, as --url names it, with its metrics. Raises OptionError."""
        url, metrics = _server(address, "")
        return replace(self, url=url, metrics_url=metrics)

    def options(self) -> dict[str, str | bool]:
        """The flags that make this configuration, by name."""
        return {
            # A served model may have the name of a workload.
            "model": "" if self.workload.served else self.workload.name,
            "engine": self.engine,
            "precision": self.precision,
            "url": self.address,
            **self.access.options(),
            "model_name": self.model_name or "",
            "model_version": self.model_version,
            "bls_composing_models": ",".join(f"{n}:{v}" if v else n for n, v in self.composing_models.items()),
            "batch_size": str(self.batch_size),
            **self.scenario.options(),
            "seed": str(self.seed),
            "slo": written(self.slo),
            "input_data": self.input_data,
            **self.inputs.options(),
            "quality": self.quality,
            **_decoding(self.language_model),
            "data_root": str(self.data_root),
            "model_repository": str(self.model_repository),
            "out": str(self.out),
            "result_dir": str(self.result_dir or ""),
            "start_file": str(self.start_file or ""),
            "request_timeout": text_of(self.request_timeout_s),
            "max_in_flight": str(self.max_in_flight),
            "priority": self.priority,
            "cpu_latency_qos": self.cpu_latency_qos,
            "max_error_share": text_of(self.max_error_share),
            "streaming": self.streaming,
            "shared_memory": self.shared_memory,
            "input_tensor_format": self.input_tensor_format,
            "output_tensor_format": self.output_tensor_format,
            "request_log": self.request_log,
            **self.metrics.options(),
            "sampling_rate": text_of(self.sampling_rate_hz),
            "power_command": self.power[0] if self.power else "",
            "power_boundary": self.power[1] if self.power else "",
            "request_parameter": request_parameters.written(self.request_parameters),
            "sequence_length": str(self.sequence_length or ""),
            "num_of_sequences": str(self.num_of_sequences),
            "start_sequence_id": str(self.start_sequence_id),
            "command_options": json.dumps(self.command_options) if self.command_options else "",
        }

    def run_options(self) -> dict[str, Any]:
        """The options of `servemark run` that make this run again, by name, without those at their default."""
        load = {flags.BY_NAME[name]: value for name, value in self.options().items()}
        given = {flag.name: value for flag, value in load.items() if value != flag.value and not flag.of_the_place}
        found = {"workload": self.workload.name, **given, **self.command_options}
        return {name: value for name, value in found.items() if value not in ("", None, False, [])}

    def arguments(self) -> list[str]:
        """The command line of this run, for a process of its own."""
        return flags.arguments(self.options())

    def to_dict(self) -> Config:
        """The resolved configuration for result.json."""
        document = {
            "workload": self.workload.name,
            "engine": None if self.workload.served else self.engine,
            "precision": None if self.workload.served else self.precision,
            "url": self.url,
            "model": self.model,
            "model_version": self.model_version or None,
            "batch_size": self.batch_size,
            **self.scenario.to_config(),
            "seed": self.seed,
            "slo": written(self.slo) or None,
            "input_data": self.input_data,
            **self.inputs.to_config(),
            "quality": self.quality,
            **({"language_model": self.language_model.to_config()} if self.language_model else {}),
            "shared_memory": self.shared_memory,
            "request_timeout_s": self.request_timeout_s,
            "max_in_flight": self.max_in_flight,
            "priority": self.priority,
            "cpu_latency_qos": self.cpu_latency_qos,
            "max_error_share": self.max_error_share,
            "request_log": self.request_log,
            "sampling_rate_hz": self.sampling_rate_hz,
            "power_command": self.power[0] if self.power else None,
            **({"request_parameters": dict(self.request_parameters)} if self.request_parameters else {}),
            "sequence_length": self.sequence_length,
            "windows": self.windows,
            "options": self.run_options(),
        }
        return cast(Config, document)


def _command_options(text: str) -> dict[str, Any]:
    """Read --command-options. Raises OptionError."""
    with parsing("--command-options", OptionError, fix="leave it out: it is for commands of servemark"):
        return dict(json.loads(text or "{}"))


def out_of_range(tensor: Tensor, least: float, most: float) -> str | None:
    """Why a tensor cannot hold values of a range, None where it can."""
    if tensor.dtype.kind in "Ob":
        return f"is no range of {tensor.datatype}"
    if tensor.dtype.kind in "iu":
        limits = np.iinfo(tensor.datatype.lower())
        if least != int(least) or most != int(most):
            return f"has no whole numbers, and {tensor.name} is {tensor.datatype}"
        if least < limits.min or most > limits.max:
            return f"is beyond {tensor.datatype} ({limits.min} to {limits.max})"
    elif max(abs(least), abs(most)) > np.finfo(tensor.dtype.char).max:
        return f"is beyond {tensor.datatype}"
    return None


def server_address(options: argparse.Namespace) -> tuple[str, str | None]:
    """The URL of the server that options name, and that of its metrics. Raises OptionError."""
    return _server(options.host or "", options.protocol)


def _composing(text: str) -> dict[str, str]:
    """Read --bls-composing-models: names, each perhaps with :VERSION."""
    parts = [part.strip().partition(":") for part in (text or "").split(",") if part.strip()]
    return {name: version for name, _, version in parts}


def _tensor_format(which: str, options: argparse.Namespace) -> str:
    """Read --input-tensor-format or --output-tensor-format. Raises OptionError."""
    value: str = getattr(options, f"{which}_tensor_format")
    return one_of(f"--{which}-tensor-format", value, flags.TENSOR_FORMATS)


def _power(command: str, boundary: str) -> tuple[str, str] | None:
    """Read --power-command and --power-boundary. Raises OptionError."""
    if command:
        words_of(command)
        return command, boundary or WALL
    if boundary:
        raise OptionError(f"--power-boundary {boundary} has no meter", fix="--power-command CMD, or leave it out")
    return None


def _language_model(options: argparse.Namespace) -> LanguageModel | None:
    """Read --language-model and what weighs it. Raises OptionError, InputDataError."""
    if not options.language_model:
        for flag in (flags.BY_NAME[name] for name in flags.names_of("decoding")):
            if (getattr(options, flag.name) or flag.default) != flag.default:
                raise OptionError(f"{flag.option} has no language model", fix="--language-model FILE, or leave it out")
        return None
    file = Path(options.language_model)
    if not file.is_file():
        raise InputDataError(f"there is no language model {file}", fix="name an .arpa file or a binary of KenLM's")
    return LanguageModel(
        file,
        alpha=number("--lm-alpha", options.lm_alpha),
        beta=number("--lm-beta", options.lm_beta),
        beam_width=whole("--beam-width", options.beam_width, 1),
    )


def _decoding(model: LanguageModel | None) -> dict[str, str]:
    """The flags that name a language model and weigh it, by name."""
    if model is None:
        return {}
    weights = {"lm_alpha": text_of(model.alpha), "lm_beta": text_of(model.beta), "beam_width": str(model.beam_width)}
    return {"language_model": str(model.file), **weights}


def _sampling_rate(text: str) -> float:
    """Read --sampling-rate. Raises OptionError."""
    rate_hz = at_least("--sampling-rate", text, 0)
    if rate_hz > MAX_SAMPLING_RATE_HZ:
        raise OptionError(
            f"--sampling-rate {rate_hz:g} is above {MAX_SAMPLING_RATE_HZ:g}, where it would disturb the load",
            fix="give a rate from 0 to 100",
        )
    return rate_hz


def _server(text: str, protocol: str) -> tuple[str, str | None]:
    """The URL of a server as --url names it, and that of its metrics. Raises OptionError."""
    host, _, metrics = text.partition(METRICS)
    url = normal_url(host, protocol)
    return url, metrics_url(url, metrics)
