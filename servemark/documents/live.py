"""Group `live` of a request: records of the run, views of it, and what is done while it goes on."""

from typing import Annotated

from msgspec import Meta, Struct

from servemark.documents import fields
from servemark.documents.fields import LOADS, MEASURED, MLPERF, RUN, Count, File, Host, Names, Program, Word
from servemark.documents.values import exporters, timed_commands
from servemark.errors import OptionError
from servemark.paths import RESULTS
from servemark.quantities import SECONDS

LOOPBACK = "127.0.0.1"
GENERATOR = f"{LOOPBACK}:9464"
"""Address at which a run is expected to show its metrics: the port that OpenTelemetry's Prometheus exporters use."""
TRITON = f"{LOOPBACK}:8002"
"""Address at which Triton shows its own metrics."""
MAX_PORT = 65_535
MAX_SAMPLING_RATE_HZ = 100.0


class Live(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records of the run, and views of it while it goes on."""

    out: Annotated[File, fields.folder("Where result directories are made.", RESULTS)] = ""
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
    at: Annotated[
        tuple[Program, ...],
        fields.text(
            "Run a command at this second of the measured interval; the result says how long the latency took to "
            "recover from it; may come again.",
            metavar="S:COMMAND",
            repeatable=True,
            many=True,
            of_locust=False,
            commands={RUN},
        ),
    ] = ()
    power_command: Annotated[
        Program,
        fields.text(
            "Meter energy by this command: one figure in watts a line, until it is ended.",
            metavar="CMD",
            commands=MEASURED,
        ),
    ] = ""
    power_boundary: Annotated[
        Word, fields.text("What that command meters; wall if not given.", metavar="NAME", commands=MEASURED)
    ] = ""
    scrape: Annotated[
        tuple[Host, ...],
        fields.text(
            "Prometheus exporter read once a second beside the run, like node=http://HOST:9100/metrics#node_load; "
            "may come again.",
            metavar="NAME=URL[#PREFIX,...]",
            repeatable=True,
            many=True,
            of_locust=False,
            commands={RUN},
        ),
    ] = ()
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
        Annotated[int, Meta(ge=0, le=MAX_PORT), Names.HOST] | None,
        fields.whole(
            optional=True,
            help_="Prometheus metrics of the run while it goes on, at this port; 0: a free one.",
            least=0,
            most=MAX_PORT,
            metavar="PORT",
            commands=MEASURED | {MLPERF},
        ),
    ] = None
    metrics_host: Annotated[
        Host, fields.text("Where that port listens.", metavar="HOST", commands=MEASURED | {MLPERF})
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
    otlp: Annotated[
        Host,
        fields.text(
            "Send the metrics to this OpenTelemetry collector (HTTP), every 5 s and at the end.",
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
        exporters.parse_all(self.scrape)
        timed_commands.parse_all(self.at)
        if self.power_boundary and not self.power_command:
            raise OptionError("--power-boundary needs --power-command", fix="--power-command CMD, or leave it out")
