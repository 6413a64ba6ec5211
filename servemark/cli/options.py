"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from servemark import artifacts
from servemark.agreement import PRECISIONS
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

DEFAULT_REPOSITORY = MODEL_REPOSITORY
DEFAULT_DATA_ROOT = DATA_ROOT
DEFAULT_ENGINE = artifacts.DEFAULT_ENGINE
DEFAULT_PRECISION = artifacts.FULL
