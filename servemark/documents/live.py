"""Group `live` of a request: records of the run, views of it, and what is done while it goes on."""

import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Self
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from servemark.documents.fields import (
    ALL,
    LOADS,
    MEASURED,
    MLPERF,
    RUN,
    Count,
    File,
    Host,
    Names,
    NotNegative,
    Port,
    Program,
    Word,
    folder,
    option,
)
from servemark.errors import OptionError
from servemark.paths import RESULTS
from servemark.quantities import SECONDS, number, part_of

_AT_FIX = "--at 10:'curl -X POST http://127.0.0.1:8000/v2/repository/models/resnet50_onnxruntime/load'"
_SCRAPE_FIX = "--scrape node=http://127.0.0.1:9100/metrics#node_load,node_memory_MemAvailable"
OURS = {"machine", "triton"}
LOOPBACK = "127.0.0.1"
GENERATOR = f"{LOOPBACK}:9464"
"""Address at which a run is expected to show its metrics: the port that OpenTelemetry's Prometheus exporters use."""
TRITON = f"{LOOPBACK}:8002"
"""Address at which Triton shows its own metrics."""


@dataclass(frozen=True)
class TimedCommand:
    """A command, and the second of the measured interval at which it is started. No shell reads it."""

    at_s: float
    command: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read S:COMMAND. Raises OptionError."""
        at, _, command = text.partition(":")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise OptionError(f"--at {text!r}: {error}", fix=_AT_FIX) from error
        if not words:
            raise OptionError(f"--at {text!r} is not S:COMMAND", fix=_AT_FIX)
        with part_of(_AT_FIX):
            at_s = number("--at", at, SECONDS)
        if at_s < 0:
            raise OptionError(f"--at {text!r}: it cannot begin before the interval", fix=_AT_FIX)
        return cls(at_s, command.strip())


def timed_commands_of(texts: tuple[str, ...]) -> list[TimedCommand]:
    """Read the commands of a request in the order of their times. Raises OptionError."""
    return sorted((TimedCommand.parse(text) for text in texts), key=lambda each: each.at_s)


@dataclass(frozen=True)
class Exporter:
    """An exporter, and the beginnings of the names of its metrics that are kept; none: all."""

    name: str
    url: str
    prefixes: tuple[str, ...] = ("",)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read NAME=URL or NAME=URL#PREFIX,... . Raises OptionError."""
        name, _, rest = text.partition("=")
        url, _, prefixes = rest.partition("#")
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,40}", name) or parts.scheme != "http" or not parts.hostname:
            raise OptionError(f"--scrape {text!r} is not NAME=http://HOST:PORT/metrics", fix=_SCRAPE_FIX)
        if name in OURS or parts.username:
            why = f"the name {name} is taken" if name in OURS else "the URL holds a user, which would be shown"
            raise OptionError(f"--scrape {text!r}: {why}", fix=_SCRAPE_FIX)
        wanted = tuple(each.strip() for each in prefixes.split(",") if each.strip())
        return cls(name, url, wanted or ("",))


def exporters_of(texts: tuple[str, ...]) -> tuple[Exporter, ...]:
    """Read the exporters of a request. Raises OptionError, also for a name that is there twice."""
    found = tuple(Exporter.parse(text) for text in texts)
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(f"--scrape has {twice} twice", fix="give each exporter a name of its own")
    return found


class Live(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records of the run, and views of it while it goes on."""

    out: Annotated[File, folder("Where result directories are made.", RESULTS, commands=ALL)] = ""
    request_log: Annotated[bool, option("Keep each request's times: requests.csv in the result.")] = False
    explain: Annotated[
        bool,
        option(
            "Explain the slowest requests by Triton's trace of each and a replay of the queue.",
            of_locust=False,
            commands={RUN},
        ),
    ] = False
    at: Annotated[
        tuple[Program, ...],
        option(
            "Run a command at this second of the measured interval; the result says how long the latency took to "
            "recover; repeatable.",
            metavar="S:COMMAND",
            of_locust=False,
            commands={RUN},
        ),
    ] = ()
    power_command: Annotated[
        Program, option("Meter energy by this command, which prints watts line by line.", metavar="CMD")
    ] = ""
    power_boundary: Annotated[
        Word, option("Name of what --power-command meters; wall if not given.", metavar="NAME")
    ] = ""
    scrape: Annotated[
        tuple[Host, ...],
        option(
            "Prometheus exporter, read once a second during the run, like node=http://HOST:9100/metrics#node_load; "
            "may be given again.",
            metavar="NAME=URL[#PREFIX,...]",
            of_locust=False,
            commands={RUN},
        ),
    ] = ()
    sampling_rate_hz: Annotated[
        float,
        Meta(ge=0, le=100.0),
        option("Readings per second of CPU, GPU and power, for series.json; 0: none.", metavar="HZ"),
    ] = 10.0
    metrics_port: Annotated[
        Annotated[Port, Names.HOST] | None,
        option("Port for live Prometheus metrics; 0 picks a free one.", metavar="PORT", commands=MEASURED | {MLPERF}),
    ] = None
    metrics_host: Annotated[
        Host, option("Address on which --metrics-port listens.", metavar="HOST", commands=MEASURED | {MLPERF})
    ] = LOOPBACK
    metrics_grace_s: Annotated[
        NotNegative,
        option(
            "Keep --metrics-port open this long after the run, or until Ctrl-C.",
            units=SECONDS,
            commands=MEASURED | {MLPERF},
        ),
    ] = 0.0
    otlp: Annotated[
        Host,
        option(
            "Send the metrics to this OpenTelemetry collector (HTTP), every 5 s and at the end.",
            commands=MEASURED | {MLPERF},
        ),
    ] = ""
    otlp_sample: Annotated[
        Count | None,
        option(
            "HTTP: one in N requests carries a W3C traceparent, and its span goes to --otlp.", commands=LOADS | {MLPERF}
        ),
    ] = None

    @property
    def publishes(self) -> bool:
        """Tell whether metrics go anywhere while the run goes on."""
        return self.metrics_port is not None or bool(self.otlp)

    def __post_init__(self) -> None:
        if self.metrics_grace_s and self.metrics_port is None:
            raise OptionError("--metrics-grace is for the port of the metrics", fix="add --metrics-port PORT")
        if self.otlp_sample and not self.otlp:
            raise OptionError("--otlp-sample has nowhere to send its spans", fix="add --otlp URL")
        exporters_of(self.scrape)
        timed_commands_of(self.at)
        if self.power_boundary and not self.power_command:
            raise OptionError("--power-boundary needs --power-command", fix="--power-command CMD, or leave it out")
