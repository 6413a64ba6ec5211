"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.paths import DATA_ROOT, MODEL_REPOSITORY
from servemark.repository import entry
from servemark.workload.agreement import PRECISIONS

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

DEFAULT_REPOSITORY = MODEL_REPOSITORY
DEFAULT_DATA_ROOT = DATA_ROOT
DEFAULT_ENGINE = entry.DEFAULT_ENGINE
DEFAULT_PRECISION = entry.FULL
Device = Annotated[str, typer.Option(metavar="DEVICE", help="cpu or cuda:N; else what the model's config.pbtxt says.")]
EngineOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY[=VALUE]", help="Engine's own parameter, like compile=true; may come again."),
]
Instances = Annotated[int | None, typer.Option(metavar="N", min=1, help="Instances of the model on each device.")]
