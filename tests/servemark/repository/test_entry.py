"""An entry of the model repository: the commands that make and serve it."""

import os
from pathlib import Path

import pytest

from exporters.pipeline.isolated import Task, export_isolated
from loadgen.targets.http import HttpTarget
from servemark.errors import ArtifactError, ServerError
from servemark.repository.entry import Entry
from tests.support.load_config import config

INT8 = Entry(Path("nowhere"), "ranking_tiny", "onnxruntime", "int8")


def test_a_command_names_the_precision_unless_it_is_the_full_one() -> None:
    assert INT8.serve_command() == "servemark serve ranking_tiny --engine onnxruntime --precision int8"
    assert INT8.export_command() == "servemark export ranking_tiny --engine onnxruntime --precision int8"
    full = Entry(Path("nowhere"), "ncf", "pytorch")
    assert (full.serve_command(), full.export_command(force=True)) == (
        "servemark serve ncf --engine pytorch",
        "servemark export ncf --engine pytorch --force",
    )


def test_a_run_asks_for_a_server_of_its_own_precision() -> None:
    with pytest.raises(ServerError) as error:
        HttpTarget(config("ranking_tiny", "--precision", "int8", "--url", "http://127.0.0.1:9")).prepare()
    assert INT8.serve_command() in str(error.value.fix)


class Killed(Task):
    """An export whose process ends in the middle of it."""

    def export(self) -> None:  # type: ignore[override]
        os._exit(9)


def test_an_export_that_was_killed_names_its_own_precision(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as error:
        export_isolated(Killed("ranking_tiny", "onnxruntime", "int8", tmp_path, force=False))
    assert str(error.value.fix).startswith(INT8.export_command())
