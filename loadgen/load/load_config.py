"""A run as it is made: its request with the workload, server, trace and language model that it names; and its order."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from loadgen.load.arrivals import Share, Users
from loadgen.load.scenario import Scenario, scenario_of
from loadgen.transport.access import Access
from loadgen.transport.server_url import METRICS, metrics_url, normal_urls, protocol_of
from servemark.documents import request as documents
from servemark.documents.live import Live
from servemark.documents.load import NO_PAUSE, ClosedLoop, Load
from servemark.documents.request import DATASET, SYNTHETIC, RunRequest
from servemark.documents.saved_load import title
from servemark.documents.server import Server
from servemark.errors import InputDataError, OptionError
from servemark.paths import DATA_ROOT, MODEL_REPOSITORY, RESULTS
from servemark.quality.ctc import LanguageModel
from servemark.quantities import EXACT_FLOATS, text_of
from servemark.repository.entry import Entry
from servemark.repository.names import checked_name
from servemark.results.directory import ORDER_FILE
from servemark.results.objectives import Objectives, parse_objectives
from servemark.results.schema.run import Resolved
from servemark.telemetry.energy.command import words_of
from servemark.telemetry.metrics.publisher import require_destinations
from servemark.workload import Tensor, Workload, get

WALL = "wall"
"""The usual boundary of a power command: the machine's plug."""
Lookup = Callable[[RunRequest], Workload]
"""Finds the workload that a request names. Raises OptionError, and ServerError where only a server knows it."""


def in_zoo(request: RunRequest) -> Workload:
    """The workload of the zoo that a request names. Raises OptionError."""
    return get(request.workload)


class Startup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The start of a server of our own, which has answered no request yet."""

    load_s: float
    """Time from the start of its process until its models were ready."""
    ready_ns: int
    """The time at which they were (monotonic ns)."""


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run to make: the file that its process gets, with the request and what the caller has resolved of it."""

    request: RunRequest
    address: str
    """The server that is really asked, as --url names it."""
    result_dir: str
    """The result directory, made by the caller."""
    server_root: int | None = None
    """The process from which the server's descend, where the caller has started it."""
    startup: Startup | None = None
    """The start of that server, where its caller has just started it for a cold start."""
    start_file: str = ""
    """Begin at the time (monotonic ns) in this file."""

    def place(self) -> Path:
        """Write it into the result directory; its path."""
        path = Path(self.result_dir, ORDER_FILE)
        path.write_bytes(msgspec.json.encode(self))
        return path

    @classmethod
    def take(cls, path: Path) -> "Order":
        """Read it, and remove the file."""
        order = msgspec.json.decode(path.read_bytes(), type=cls)
        path.unlink()
        return order


@dataclass(frozen=True, repr=False)
class LoadConfig:
    """One run, resolved and checked.

    `changed` makes a variant with other values of its request, `at` one at another server.
    """

    request: RunRequest
    workload: Workload
    scenario: Scenario
    urls: tuple[str, ...]
    """The server, or several that take requests in turn."""
    metrics_url: str | None
    """URL of the server's metrics, which name the engine that runs. None: not known."""
    access: Access
    slo: Objectives
    language_model: LanguageModel | None
    """With what the answers that are scored are decoded, None: greedily."""
    server_root: int | None = None
    """The process from which the server's descend. None: those that listen at its port are looked for."""
    startup: Startup | None = None
    """The start of the server, where its caller has just started it for a cold start."""
    result_dir: Path | None = None
    start_file: Path | None = None
    # Of the request and its load, at hand.
    server: Server = field(init=False)
    inputs: documents.Inputs = field(init=False)
    limits: documents.Limits = field(init=False)
    live: Live = field(init=False)
    engine: str = field(init=False)
    precision: str = field(init=False)
    seed: int = field(init=False)
    batch_size: int = field(init=False)
    quality: bool = field(init=False)
    """True if the answers are scored by the labels of the data set."""
    duration_s: float = field(init=False)
    warmup_s: float = field(init=False)

    @classmethod
    def of(cls, request: RunRequest, lookup: Lookup = in_zoo, *, address: str = "") -> "LoadConfig":
        """Resolve a request, for a server at another address where one is given.

        Raises OptionError, InputDataError, ServerError.
        """
        server, live = request.server, request.live
        workload = lookup(documents.changed(request, url=address, protocol="") if address else request)
        urls, metrics = _servers(address, "") if address else server_addresses(request)
        if live.power_command:
            words_of(live.power_command)
        require_destinations(live)
        return cls(
            request=request,
            workload=workload,
            scenario=scenario_of(_made(request)),
            urls=urls,
            metrics_url=metrics,
            access=Access.of(server, urls[0]),
            slo=parse_objectives(request.objectives.slo),
            language_model=_language_model(request.objectives),
        )

    @classmethod
    def ordered(cls, order: Order, lookup: Lookup) -> "LoadConfig":
        """Resolve what a caller has ordered. Raises as `of`."""
        config = cls.of(order.request, lookup, address=order.address)
        return replace(
            config,
            server_root=order.server_root,
            startup=order.startup,
            result_dir=Path(order.result_dir),
            start_file=Path(order.start_file) if order.start_file else None,
        )

    @property
    def order(self) -> Order:
        """The order that makes this run in a process of its own."""
        assert self.result_dir is not None
        return Order(
            request=self.request,
            address=self.address,
            server_root=self.server_root,
            startup=self.startup,
            result_dir=str(self.result_dir.absolute()),
            start_file=str(self.start_file.absolute()) if self.start_file else "",
        )

    def changed(self, **values: Any) -> "LoadConfig":
        """Return the same run with other values of fields of its request, by their names."""
        resolved: dict[str, Any] = {}
        request = documents.changed(self.request, **values)
        if "load" in values:
            resolved["scenario"] = scenario_of(_made(request))
        if "slo" in values:
            resolved["slo"] = parse_objectives(values["slo"])
        return replace(self, request=request, **resolved)

    def at(self, address: str, server_root: int | None = None) -> "LoadConfig":
        """Return the same run against another server, as --url names it, with its metrics. Raises OptionError.

        All processes of a server that the caller has started descend from `server_root`.
        """
        urls, metrics = _servers(address, "")
        return replace(self, urls=urls, metrics_url=metrics, server_root=server_root)

    def __post_init__(self) -> None:
        """Check what has to fit together. Raises OptionError."""
        request, inputs, objectives = self.request, self.request.inputs, self.request.objectives
        vars(self).update(
            server=request.server,
            inputs=inputs,
            limits=request.limits,
            live=request.live,
            engine=request.engine,
            precision=request.precision,
            seed=inputs.seed,
            batch_size=inputs.batch_size,
            quality=objectives.quality,
            duration_s=self.scenario.duration_s,
            warmup_s=self.scenario.warmup_s,
        )
        workload, most = self.workload, max(self.workload.max_batch, 1)
        if self.batch_size > most:
            why = f"above {workload.name}'s maximum of {most}" if workload.batched else "for a model with batches"
            raise OptionError(f"--batch-size {self.batch_size} is {why}", fix=f"give at most --batch-size {most}")
        for name in filter(None, (self.model, self.server.model_version)):
            checked_name(name)
        self._check_inputs()

    def _check_inputs(self) -> None:
        """Check that what is said of inputs is said of inputs that there are, and fits them. Raises OptionError."""
        tensors, model = {tensor.name: tensor for tensor in self.workload.inputs}, self.workload.name
        for flag, named in (("--shape", self.inputs.shape), ("--input-range", self.inputs.input_range)):
            if unknown := [name for name in named if name not in tensors]:
                raise OptionError(
                    f"{flag} names {unknown[0]!r}, which is not an input of {model}",
                    fix=f"one of: {', '.join(tensors)}",
                )
        for name, shape in self.inputs.shape.items():
            if not (tensor := tensors[name]).fits(shape):
                raise OptionError(
                    f"--shape {name}:{','.join(map(str, shape))} does not fit {model}'s {name} "
                    f"{tensor.datatype}{list(tensor.shape)}",
                    fix="give each size that is -1 there, and repeat the others; the batch is --batch-size",
                )
        for name, (least, most) in self.inputs.input_range.items():
            if (why := out_of_range(tensors[name], least, most)) is not None:
                raise OptionError(
                    f"--input-range {name}:{text_of(least)}:{text_of(most)} {why}", fix="--input-range NAME:LEAST:MOST"
                )

    def __repr__(self) -> str:
        """One line for a print: model, load and server."""
        return f"<LoadConfig {self.model}: {title(self.scenario.load, self.scenario.to_dict())}, at {self.named_urls}>"

    @property
    def input_data(self) -> str:
        """Source of the inputs; scored answers need the data set."""
        return DATASET if self.quality and self.inputs.input_data == SYNTHETIC else self.inputs.input_data

    @property
    def data_root(self) -> Path:
        """Folder of the data sets."""
        return Path(self.inputs.data_root or DATA_ROOT)

    @property
    def model_repository(self) -> Path:
        """Folder of the exported models."""
        return Path(self.server.model_repository or MODEL_REPOSITORY)

    @property
    def out(self) -> Path:
        """Folder of the result directories."""
        return Path(self.live.out or RESULTS)

    @property
    def power(self) -> tuple[str, str] | None:
        """A command of the user's that meters power, and what it meters."""
        return (self.live.power_command, self.live.power_boundary or WALL) if self.live.power_command else None

    @property
    def url(self) -> str:
        """The server; of several the first."""
        return self.urls[0]

    @property
    def named_urls(self) -> str:
        """The servers as --url names them."""
        return ",".join(self.urls)

    @property
    def address(self) -> str:
        """The servers as --url names them, the place of the metrics included."""
        return f"{self.named_urls}{METRICS}{self.metrics_url}" if self.metrics_url else self.named_urls

    @property
    def protocol(self) -> str:
        """Protocol of the server: http or grpc."""
        return protocol_of(self.url)

    @property
    def entry(self) -> Entry:
        """The model's entry in the local repository, which holds the golden outputs."""
        return Entry(self.model_repository, self.workload.name, self.engine, self.precision)

    @property
    def model(self) -> str:
        """The model's name on the server."""
        return self.workload.name if self.workload.served else self.server.model_name or self.entry.model

    @property
    def wire_batch(self) -> int:
        """The batch size in shapes, 0 where they have none."""
        return self.batch_size if self.workload.batched else 0

    @property
    def lead(self) -> tuple[int, ...]:
        """First sizes of a request's shapes: the batch size, or nothing."""
        return (self.wire_batch,) if self.wire_batch else ()

    @property
    def open_loop(self) -> bool:
        """Tell whether a schedule decides when requests go out."""
        return not isinstance(self.scenario.load, ClosedLoop)

    @property
    def concurrency(self) -> int | None:
        """Requests that a closed loop keeps in flight, None for an open one."""
        return self.scenario.load.concurrency if isinstance(self.scenario.load, ClosedLoop) else None

    def users(self, share: Share) -> Users:
        """This share of the users of a closed loop; one where there is none."""
        pause = self.scenario.load.think_time_s if isinstance(self.scenario.load, ClosedLoop) else NO_PAUSE
        return Users(share.count(self.concurrency or 1), pause, f"{self.seed} {share.index}")

    @property
    def most_in_flight(self) -> int:
        """Requests that may be in flight; a sequence has one at most."""
        return self.concurrency or (
            self.server.num_of_sequences if self.server.sequence_length else self.limits.max_in_flight
        )

    @property
    def windows(self) -> int:
        """Number of windows of the measured interval."""
        return sum(self.scenario.windows_per_stage)

    def to_dict(self) -> dict[str, Any]:
        """The request as result.json holds it."""
        return dict(msgspec.to_builtins(self.request))

    def resolved(self) -> Resolved:
        """Return what the request leaves open, for result.json; its target adds what it resolves."""
        found: Resolved = {"url": self.url, "model": self.model, "windows": self.windows}
        if len(self.urls) > 1:
            found["urls"] = [*self.urls]
        if self.language_model:
            found["language_model"] = self.language_model.to_config()
        return found


def _made(request: RunRequest) -> Load:
    """The load as it is made: a cold start begins without a warm-up."""
    return msgspec.structs.replace(request.load, warmup=0.0) if request.server.cold_start else request.load


def out_of_range(tensor: Tensor, least: float, most: float) -> str | None:
    """Say why a tensor cannot hold values of a range. None: it can."""
    if tensor.dtype.kind in "Ob":
        return f"is not a range of {tensor.datatype}"
    if tensor.dtype.kind in "iu":
        limits = np.iinfo(tensor.datatype.lower())
        exact = [isinstance(each, int) or (each.is_integer() and abs(each) < EXACT_FLOATS) for each in (least, most)]
        if not all(exact):  # each whole, and the very number that was written
            return f"has no whole numbers, and {tensor.name} is {tensor.datatype}"
        if least < limits.min or most > limits.max:
            return f"is beyond {tensor.datatype} ({limits.min} to {limits.max})"
    elif max(abs(least), abs(most), most - least) > np.finfo(tensor.dtype.char).max:
        return f"is beyond {tensor.datatype}"
    return None


def server_addresses(request: RunRequest) -> tuple[tuple[str, ...], str | None]:
    """The URLs of the servers that a request names, and that of their metrics. Raises OptionError."""
    server = request.server
    urls, metrics = _servers(server.url, server.protocol)
    return urls, metrics_url(urls[0], server.metrics_url) if server.metrics_url else metrics


def _language_model(objectives: documents.Objectives) -> LanguageModel | None:
    """Find a language model. Raises InputDataError."""
    if not objectives.language_model:
        return None
    file = Path(objectives.language_model)
    if not file.is_file():
        raise InputDataError(f"there is no language model {file}", fix="name an .arpa file or a binary of KenLM's")
    weights = {"alpha": objectives.lm_alpha, "beta": objectives.lm_beta, "beam_width": objectives.beam_width}
    given: dict[str, Any] = {name: weight for name, weight in weights.items() if weight is not None}
    return LanguageModel(file, **given)


def _servers(text: str, protocol: str) -> tuple[tuple[str, ...], str | None]:
    """The URLs of servers as --url names them, and that of the metrics: none where there are several servers.

    Raises OptionError.
    """
    hosts, _, metrics = text.partition(METRICS)
    urls = normal_urls(hosts, protocol)
    return urls, metrics_url(urls[0], metrics) if metrics or len(urls) == 1 else None
