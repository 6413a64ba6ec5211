"""Settings of a served model for this run alone: a repository of links beside another config.pbtxt."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from servemark.artifacts import Entry
from servemark.model_config import Settings

Device = Annotated[str, typer.Option(metavar="DEVICE", help="cpu or cuda:N; else what the model's config.pbtxt says.")]
EngineOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY[=VALUE]", help="Engine's own parameter, like compile=true; may come again."),
]
Instances = Annotated[int | None, typer.Option(metavar="N", min=1, help="Instances of the model on each device.")]


@contextlib.contextmanager
def repository_with(repository: Path, entries: Sequence[Entry], settings: Settings) -> Iterator[Path]:
    """Yield the repository, or one with the entries' settings changed. Raises ArtifactError on a malformed config."""
    if not settings:
        yield repository
        return
    with tempfile.TemporaryDirectory(prefix="servemark-repository-") as folder:
        for entry in entries:
            entry.overlay(settings.apply(entry.config.read_text()), Path(folder))
        yield Path(folder)
