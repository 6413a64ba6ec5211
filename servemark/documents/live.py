"""Group `live` of a request: records of the run, views of it, and what is done while it goes on."""

from typing import Annotated

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
from servemark.documents.values import exporters, timed_commands
from servemark.errors import OptionError
from servemark.paths import RESULTS
from servemark.quantities import SECONDS

LOOPBACK = "127.0.0.1"
GENERATOR = f"{LOOPBACK}:9464"
"""Address at which a run is expected to show its metrics: the port that OpenTelemetry's Prometheus exporters use."""
TRITON = f"{LOOPBACK}:8002"
"""Address at which Triton shows its own metrics."""
MAX_SAMPLING_RATE_HZ = 100.0


class Live(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records of the run, and views of it while it goes on."""

    out: Annotated[File, folder("Where result directories are made.", RESULTS, commands=ALL)] = ""
    request_log: Annotated[bool, option("Keep each request's times: requests.csv in the result.")] = False
    explain: Annotated[
        bool,
        option(
            "Explain the slowest requests: the server's trace of each (Triton), the queue replayed.",
            of_locust=False,
            commands={RUN},
        ),
    ] = False
    at: Annotated[
        tuple[Program, ...],
        option(
            "Run a command at this second of the measured interval; the result says how long the latency took to "
            "recover from it; may come again.",
            metavar="S:COMMAND",
            of_locust=False,
            commands={RUN},
        ),
    ] = ()
    power_command: Annotated[
        Program, option("Meter energy by this command: one figure in watts a line, until it is ended.", metavar="CMD")
    ] = ""
    power_boundary: Annotated[Word, option("What that command meters; wall if not given.", metavar="NAME")] = ""
    scrape: Annotated[
        tuple[Host, ...],
        option(
            "Prometheus exporter read once a second beside the run, like node=http://HOST:9100/metrics#node_load; "
            "may come again.",
            metavar="NAME=URL[#PREFIX,...]",
            of_locust=False,
            commands={RUN},
        ),
    ] = ()
    sampling_rate_hz: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SAMPLING_RATE_HZ)],
        option("Readings of CPU, GPU and power a second, for series.json; 0: none.", metavar="HZ"),
    ] = 10.0
    metrics_port: Annotated[
        Annotated[Port, Names.HOST] | None,
        option(
            "Prometheus metrics of the run while it goes on, at this port; 0: a free one.",
            metavar="PORT",
            commands=MEASURED | {MLPERF},
        ),
    ] = None
    metrics_host: Annotated[Host, option("Where that port listens.", metavar="HOST", commands=MEASURED | {MLPERF})] = (
        LOOPBACK
    )
    metrics_grace_s: Annotated[
        NotNegative,
        option(
            "Leave the final metrics at that port for so long after the run, or until Ctrl-C.",
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

    def __post_init__(self) -> None:
        if self.metrics_grace_s and self.metrics_port is None:
            raise OptionError("--metrics-grace is for the port of the metrics", fix="add --metrics-port PORT")
        if self.otlp_sample and not self.otlp:
            raise OptionError("--otlp-sample has nowhere to send its spans", fix="add --otlp URL")
        exporters.parse_all(self.scrape)
        timed_commands.parse_all(self.at)
        if self.power_boundary and not self.power_command:
            raise OptionError("--power-boundary needs --power-command", fix="--power-command CMD, or leave it out")
