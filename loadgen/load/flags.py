"""Every flag of a load, declared once: Locust's parser and web UI, the commands and their pages are made from it."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from loadgen.load.arrivals import Distribution
from loadgen.load.flag import Flag, Joined, Names
from loadgen.load.input_options import DEFAULT_STRING_LENGTH
from loadgen.transport.server_url import DEFAULT_URLS
from servemark.machine.scheduling import Priority
from servemark.paths import DATA_ROOT, MODEL_REPOSITORY, RESULTS
from servemark.repository.entry import DEFAULT_ENGINE, FULL
from servemark.telemetry.metrics.destinations import LOOPBACK
from servemark.workload.agreement import PRECISIONS

AUTO, ON, OFF = "auto", "on", "off"
SHARED_MEMORY = ("none", "system", "cuda")
"""In the requests and answers, or in memory that the server maps too: POSIX shared memory, or a GPU's."""
TENSOR_FORMATS = (AUTO, "binary", "json")
PRIORITIES = (AUTO, *Priority)
"""How soon the sending thread runs: the best that is permitted for an open loop, or one by name."""
CPU_LATENCY = (AUTO, ON, OFF)
SYNTHETIC, DRAWN, DATASET = "synthetic", ("random", "zero"), "dataset"
"""Inputs that are no file."""


NOTHING, PROGRAM, PATH, HOST = Names

FLAGS = (
    Flag("model", NOTHING, "Workload", of_locustfiles=True, in_web_ui=True),
    Flag("engine", NOTHING, "Inference engine, by Triton's backend name.", DEFAULT_ENGINE, in_web_ui=True),
    Flag(
        "precision",
        NOTHING,
        f"What the engine computes in: {', '.join(PRECISIONS)}.",
        FULL,
        metavar="P",
        choices=PRECISIONS,
        in_web_ui=True,
    ),
    Flag(
        "url",
        HOST,
        "A running server, http[s]://HOST:PORT[#metrics=PORT]. A command without it starts one.",
        metavar="URL",
        short="-u",
        group="server",
        locust_dest="host",
    ),
    Flag(
        "protocol",
        NOTHING,
        "http or grpc; http unless --url is grpc[s]://.",
        choices=("", *DEFAULT_URLS),
        short="-i",
        group="server",
    ),
    Flag("streaming", NOTHING, "gRPC: one stream for each connection instead of calls.", switch=True, group="server"),
    Flag(
        "headers",
        PATH,
        "Headers of every request, one Name: value a line.",
        metavar="FILE",
        group="server",
        of_host=True,
    ),
    Flag("tls_ca", PATH, "PEM: the CA to trust instead of the system's.", metavar="FILE", group="server", of_host=True),
    Flag(
        "client_cert", PATH, "PEM: the client's certificate (mutual TLS).", metavar="FILE", group="server", of_host=True
    ),
    Flag(
        "client_key", PATH, "PEM: the client's key, if in another file.", metavar="FILE", group="server", of_host=True
    ),
    Flag(
        "shared_memory",
        NOTHING,
        "Tensors in messages (none), or in memory that the server sees too: system, cuda.",
        SHARED_MEMORY[0],
        metavar="KIND",
        choices=SHARED_MEMORY,
        group="server",
    ),
    Flag("model_name", NOTHING, "The model's name on the server, else WORKLOAD_ENGINE.", group="server"),
    Flag("model_version", NOTHING, "Its version; else the server chooses.", metavar="V", short="-x", group="server"),
    Flag(
        "bls_composing_models",
        NOTHING,
        "Models that this one calls, whose statistics are shown too; an ensemble's are known.",
        metavar="A,B:2",
        group="server",
    ),
    Flag(
        "input_tensor_format",
        NOTHING,
        "HTTP: auto, binary or json; auto: json where the server lists no binary_tensor_data.",
        AUTO,
        metavar="F",
        choices=TENSOR_FORMATS,
        group="server",
    ),
    Flag(
        "output_tensor_format",
        NOTHING,
        "HTTP: the same for the answers.",
        AUTO,
        metavar="F",
        choices=TENSOR_FORMATS,
        group="server",
    ),
    Flag(
        "request_parameter",
        NOTHING,
        "A parameter of every request, for the model; type: bool, int, double or string; may come again.",
        metavar="NAME:VALUE:TYPE",
        repeatable=True,
        group="server",
    ),
    Flag(
        "sequence_length",
        NOTHING,
        "Stateful models: so many requests after each other share a correlation id.",
        metavar="N",
        group="server",
    ),
    Flag(
        "num_of_sequences",
        NOTHING,
        "Open loop: sequences in flight; of a closed loop --concurrency are.",
        "4",
        metavar="N",
        group="server",
    ),
    Flag("start_sequence_id", NOTHING, "Correlation id of the first sequence.", "1", metavar="N", group="server"),
    Flag("serve", NOTHING, "Start Triton for this run, and stop it after.", switch=True, of_locustfiles=True),
    Flag("batch_size", NOTHING, "Samples in a request.", "1", metavar="N", short="-b", in_web_ui=True),
    Flag(
        "concurrency",
        NOTHING,
        "Closed loop: requests in flight.",
        metavar="N",
        group="arrivals",
        locust_dest="num_users",
    ),
    Flag(
        "request_rate",
        NOTHING,
        "Open loop: requests/s on a schedule; without it a closed loop.",
        metavar="R",
        group="arrivals",
        in_web_ui=True,
    ),
    Flag(
        "stages",
        NOTHING,
        "Open loop in steps, seconds:rate, like 10:100,10:400.",
        metavar="S:R,...",
        group="arrivals",
        in_web_ui=True,
    ),
    Flag(
        "trace",
        PATH,
        "Open loop from a CSV or JSONL file of arrival times.",
        metavar="FILE",
        group="arrivals",
        in_web_ui=True,
    ),
    Flag(
        "trace_speed",
        NOTHING,
        "Play the trace so many times as fast; 1 if not given.",
        metavar="X",
        group="arrivals",
        in_web_ui=True,
    ),
    Flag(
        "request_distribution",
        NOTHING,
        "Gaps between arrivals: poisson, constant or gamma (bursts).",
        Distribution.POISSON.value,
        metavar="D",
        choices=tuple(Distribution),
        group="arrivals",
        in_web_ui=True,
    ),
    Flag(
        "gamma_cv",
        NOTHING,
        "gamma: stdev/mean of the gaps; 1 is Poisson, 2 if not given.",
        metavar="CV",
        group="arrivals",
        in_web_ui=True,
    ),
    Flag("duration", NOTHING, "Measured seconds; a closed loop may go on longer.", "15", metavar="S", in_web_ui=True),
    Flag(
        "warmup",
        NOTHING,
        "Seconds before that, which do not count; auto: until the latency is steady.",
        AUTO,
        metavar="S",
        in_web_ui=True,
    ),
    Flag("seed", NOTHING, "Seed of schedule and inputs.", "0", metavar="N", in_web_ui=True),
    Flag(
        "slo",
        NOTHING,
        "Objectives, like p50:5,p99:20ms,errors:0.001; MET or MISSED.",
        metavar="pXX:MS,...",
        repeatable=True,
        in_web_ui=True,
    ),
    Flag(
        "input_data",
        PATH,
        "synthetic, random, zero, dataset, or a path (.json, .npz, folder of .npz, real data).",
        SYNTHETIC,
        plain="|".join((SYNTHETIC, *DRAWN, DATASET)),
        in_web_ui=True,
    ),
    Flag("quality", NOTHING, "Score the answers by the labels of the data set (--input-data dataset).", switch=True),
    Flag(
        "language_model",
        PATH,
        "Decode what is scored by a beam search with this KenLM model (.arpa or binary), not greedily.",
        metavar="FILE",
        group="decoding",
    ),
    Flag("lm_alpha", NOTHING, "Weight of the language model.", "0.5", metavar="X", group="decoding"),
    Flag("lm_beta", NOTHING, "Added to a text's score for each word.", "1.5", metavar="X", group="decoding"),
    Flag("beam_width", NOTHING, "Texts that the beam search keeps.", "100", metavar="N", group="decoding"),
    Flag(
        "shape",
        NOTHING,
        "random, zero: an input's sizes without the batch, where the model leaves them open; may come again.",
        metavar="NAME:3,224,224",
        repeatable=True,
    ),
    Flag(
        "range",
        NOTHING,
        "random: an input's least and greatest value; may come again.",
        metavar="NAME:0:30521",
        repeatable=True,
    ),
    Flag("string_length", NOTHING, "random: letters of each string.", str(DEFAULT_STRING_LENGTH), metavar="N"),
    Flag("string_data", NOTHING, "random: this string instead, in each element.", metavar="TEXT"),
    Flag(
        "data_root",
        PATH,
        "Where data sets lie, one folder for each.",
        str(DATA_ROOT),
        metavar="DIR",
        of_host=True,
        shown_default="data",
    ),
    Flag("out", PATH, "Where result directories are made.", str(RESULTS), metavar="DIR", shown_default="results"),
    Flag("result_dir", PATH, "The result directory itself, made by the caller.", metavar="DIR", of_locustfiles=True),
    Flag("start_file", PATH, "Begin at the time (monotonic ns) in this file.", metavar="FILE", of_locustfiles=True),
    Flag(
        "command_options",
        PROGRAM,
        "What the caller was given besides; the result keeps it for a rerun.",
        metavar="JSON",
        of_locustfiles=True,
    ),
    Flag("request_log", NOTHING, "Keep each request's times: requests.csv in the result.", switch=True),
    Flag(
        "power_command",
        PROGRAM,
        "Meter energy by this command: one figure in watts a line, until it is ended.",
        metavar="CMD",
    ),
    Flag("power_boundary", NOTHING, "What that command meters; wall if not given.", metavar="NAME"),
    Flag(
        "sampling_rate",
        NOTHING,
        "Readings of CPU, GPU and power a second, for series.json; 0: none.",
        "10",
        metavar="HZ",
    ),
    Flag(
        "request_timeout",
        NOTHING,
        "A request unanswered this long after its schedule fails, or after it waited for --max-in-flight.",
        "30",
        metavar="S",
    ),
    Flag("max_in_flight", NOTHING, "Open loop: most requests in flight; others wait.", "1024", metavar="N"),
    Flag(
        "priority",
        NOTHING,
        "Sending thread: auto (open loop: the best permitted), realtime, slice, normal.",
        AUTO,
        metavar="P",
        choices=PRIORITIES,
    ),
    Flag(
        "cpu_latency_qos",
        NOTHING,
        "Cores kept out of idle states while it sends: auto (in a virtual machine, not metered), on, off.",
        AUTO,
        metavar="Q",
        choices=CPU_LATENCY,
    ),
    Flag(
        "metrics_port",
        HOST,
        "Prometheus metrics of the run while it goes on, at this port; 0: a free one.",
        metavar="PORT",
        group="metrics",
    ),
    Flag("metrics_host", HOST, "Where that port listens.", LOOPBACK, metavar="HOST", group="metrics"),
    Flag(
        "metrics_linger",
        NOTHING,
        "Leave the final metrics at that port for so long after the run, or until Ctrl-C.",
        "0",
        metavar="S",
        group="metrics",
    ),
    Flag(
        "push_gateway",
        HOST,
        "Push the metrics to a Prometheus Pushgateway, every 5 s and at the end.",
        metavar="URL",
        group="metrics",
    ),
    Flag(
        "otlp",
        HOST,
        "Send the metrics to this OpenTelemetry collector (HTTP), every 5 s and at the end.",
        metavar="URL",
        group="metrics",
    ),
    Flag(
        "trace_requests",
        NOTHING,
        "HTTP: one in N requests carries a W3C traceparent, and its span goes to --otlp.",
        metavar="N",
        group="server",
    ),
    Flag("max_error_share", NOTHING, "Largest failed share of a valid run.", "0.01", metavar="X"),
    Flag(
        "model_repository",
        PATH,
        "Triton model repository.",
        str(MODEL_REPOSITORY),
        metavar="DIR",
        of_host=True,
        shown_default="model_repo",
    ),
)
BY_NAME = {flag.name: flag for flag in FLAGS}


def names_of(group: str) -> tuple[str, ...]:
    """The flags of a group."""
    return tuple(flag.name for flag in FLAGS if flag.group == group)


def add_arguments(parser: argparse.ArgumentParser, models: Sequence[str], *, locust: bool = True) -> None:
    """Add the flags to a parser; the first model is the default, and none stands for any that a server has.

    Locust's parser has some of them under another name, and shows flags as fields of its web UI unless told otherwise.
    """
    for flag in FLAGS:
        settings: dict[str, Any] = {"dest": flag.dest, "help": flag.help, "default": flag.value}
        if flag.name == "model":
            named = f"{', '.join(models)} (or <name>_tiny)" if models else "the name of any model on the server"
            settings |= {"default": models[0] if models else "", "help": f"{flag.help}: {named}."}
        if locust and flag.locust_dest:
            settings["default"] = argparse.SUPPRESS
        if locust and not flag.in_web_ui:
            settings["include_in_web_ui"] = False
        if flag.switch:
            settings["action"] = "store_true"
        elif flag.choices:
            settings["choices"] = list(flag.choices)
        else:
            if flag.repeatable:
                settings["action"] = Joined
            # Locust itself computes with its number of users.
            settings |= {"metavar": flag.metavar, "type": int if locust and flag.dest == "num_users" else str}
        parser.add_argument(flag.option, **settings)


def arguments(options: Mapping[str, str | bool]) -> list[str]:
    """The command line that gives flags, by name, these values."""
    given = [(BY_NAME[name], value) for name, value in options.items() if value not in ("", False)]
    return [flag.option if flag.switch else f"{flag.option}={value}" for flag, value in given]
