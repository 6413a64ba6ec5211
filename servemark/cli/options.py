"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.agreement import PRECISIONS
from servemark.artifacts import FULL
from servemark.paths import DATA_ROOT, MODEL_REPOSITORY

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Engine = Annotated[str, typer.Option(help="Inference engine, by Triton's backend name.")]
Precision = Annotated[
    str, typer.Option(metavar="P", help=f"What the engine computes in: {', '.join(PRECISIONS)}.", show_default=True)
]
Repository = Annotated[
    Path, typer.Option("--model-repository", metavar="DIR", help="Triton model repository.", show_default="model_repo")
]
DataRoot = Annotated[
    Path, typer.Option(metavar="DIR", help="Where data sets lie, one folder for each.", show_default="data")
]
Url = Annotated[
    str, typer.Option("-u", "--url", help="A running server, http://HOST:PORT[#metrics=PORT]; else one is started.")
]
Protocol = Annotated[
    str, typer.Option("-i", "--protocol", help="http or grpc; http, unless --url says grpc://.", show_default=False)
]
Streaming = Annotated[bool, typer.Option("--streaming", help="gRPC: one stream for each connection, not calls.")]
SharedMemory = Annotated[
    str, typer.Option(metavar="KIND", help="Where tensors lie: none (in the messages) or system, on this machine.")
]
# The load, as the locustfile's own flags have it; text, since it is the locustfile's options that are checked.
BatchSize = Annotated[str, typer.Option("-b", "--batch-size", metavar="N", help="Samples in a request.")]
Concurrency = Annotated[str, typer.Option(metavar="N", help="Closed loop: requests on their way.")]
RequestRate = Annotated[str, typer.Option(metavar="R", help="Open loop: requests/s on a schedule.")]
RequestDistribution = Annotated[str, typer.Option(metavar="D", help="poisson, constant or gamma (bursts).")]
GammaCv = Annotated[
    str, typer.Option(metavar="CV", help="gamma: stdev/mean of the gaps; 1 is Poisson, 2 if not given.")
]
Stages = Annotated[str, typer.Option(metavar="S:R,...", help="Open loop in steps, seconds:rate, like 10:100,10:400.")]
Trace = Annotated[
    str, typer.Option(metavar="FILE", help="Open loop from a CSV or JSONL file of arrival times in seconds.")
]
Duration = Annotated[str, typer.Option(metavar="S", help="Measured seconds; a closed loop's are the least.")]
Warmup = Annotated[str, typer.Option(metavar="S", help="Seconds before, which do not count.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of schedule and inputs.")]
Objective = Annotated[str, typer.Option(metavar="pXX:MS", help="Latency objective, like p99:50.")]
InputData = Annotated[str, typer.Option(help="synthetic, dataset, or a path.")]
RequestTimeout = Annotated[str, typer.Option(metavar="S", help="Unanswered this long: failed.")]
MaxInFlight = Annotated[str, typer.Option(metavar="N", help="Open loop: more requests wait.")]
MaxErrorShare = Annotated[str, typer.Option(metavar="X", help="Failed share a valid run may have.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where result directories are made.", show_default="results")]

DEFAULT_REPOSITORY = MODEL_REPOSITORY
DEFAULT_DATA_ROOT = DATA_ROOT
DEFAULT_ENGINE = "onnxruntime"
DEFAULT_PRECISION = FULL
