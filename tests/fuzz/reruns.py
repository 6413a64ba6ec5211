"""Results that somebody else wrote, as `rerun` takes their options: nothing is run, opened or asked without a yes."""

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import click
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from servemark.cli import _command, build
from servemark.cli._command import Source
from servemark.cli.rerun import request_of
from servemark.documents.flags import OPTIONS, given_options
from servemark.errors import OptionError, ResultError
from servemark.results import directory
from tests.fuzz.damage import damaged, hostile_json
from tests.fuzz.target import Target
from tests.support.results import histogram_of, latencies, result_of

_FOLDER = tempfile.TemporaryDirectory(prefix="servemark-fuzz-")
RUN: Any = build().commands["run"]


def read_rerun(data: bytes) -> None:
    """Read a result's request as the command `run` does: nothing that is taken names anything."""
    file = Path(_FOLDER.name, "result.json")
    file.write_bytes(data)
    request = request_of(directory.read_run(file), file)
    with (
        mock.patch.object(_command, "_at_a_terminal", return_value=False),
        RUN.make_context("servemark run", [], obj=Source(file, request)) as context,
    ):
        taken = RUN.document(context)
    for name in given_options(request):
        value = taken.workload if name == "model" else taken.given[name]
        assert value in (None, OPTIONS[name].value) or not OPTIONS[name].asked(value), name


VALUES = st.one_of(
    st.sampled_from(
        ("1", "http://h:1", "/etc/passwd", "random", "synthetic", "sh -c id", "../x", "a=true", "-1", "1e999")
    ),
    st.text(max_size=20),
    st.booleans(),
    st.lists(st.sampled_from(("compile=true", "EXECUTION_ENV_PATH=/x", "/x.py", "a=5")), max_size=3),
    st.none(),
    st.integers(),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)
FIELDS = st.sampled_from([*((o.group, o.field) for o in OPTIONS.values()), ("", "trust"), ("server", "odd")])


@st.composite
def documents(draw: DrawFn) -> dict[str, Any]:
    """A right result whose request has other values."""
    result: dict[str, Any] = {**result_of(histogram_of(latencies(20.0)))}
    request: Any = {**result["request"], "workload": "ranking_tiny"}
    for (group, field), value in draw(st.dictionaries(FIELDS, VALUES, max_size=4)).items():
        if group:
            request[group] = {**request[group], field: value}
        else:
            request[field] = value
    return {**result, "request": draw(st.one_of(st.just(request), st.just(request), st.none(), st.just([])))}


PLAIN = documents().map(lambda document: json.dumps(document).encode())

TARGETS = (
    Target(
        "rerun",
        st.one_of(PLAIN, damaged(PLAIN), hostile_json(documents())),
        read_rerun,
        (ResultError, OptionError, click.ClickException),
    ),
)
