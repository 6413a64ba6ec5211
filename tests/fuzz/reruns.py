"""Results that somebody else wrote, as `rerun` takes their options: nothing is run, opened or asked without a yes."""

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import typer
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from servemark.cli import _trust, build
from servemark.cli._run_file import defaults, parameters
from servemark.cli._trust import declared
from servemark.cli.rerun import _options_of
from servemark.errors import OptionError, ResultError
from servemark.results import directory
from tests.fuzz.damage import damaged, hostile_json
from tests.fuzz.target import Target
from tests.support.results import histogram_of, latencies, result_of

_FOLDER = tempfile.TemporaryDirectory(prefix="servemark-fuzz-")
RUN: Any = build().commands["run"]
KNOWN = parameters(RUN)
DECLARED = declared(RUN)


def read_rerun(data: bytes) -> None:
    """The options of a result, as the command `run` reads them: none that is taken names anything."""
    file = Path(_FOLDER.name, "result.json")
    file.write_bytes(data)
    options = _options_of(directory.read_run(file), file, KNOWN)
    with mock.patch.object(_trust, "_at_a_terminal", return_value=False):
        context = RUN.make_context("servemark run", [], default_map=defaults(options, KNOWN), obj=file)
    for name in options:
        parameter = KNOWN[name]
        taken = context.params[parameter.name]
        assert taken in (None, parameter.default) or not DECLARED[parameter.name].asked(taken), name
    context.close()


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
NAMES = st.sampled_from([*KNOWN, *(name.replace("-", "_") for name in KNOWN), "trust", "config", "help", "odd"])


@st.composite
def documents(draw: DrawFn) -> dict[str, Any]:
    """A right result with other options."""
    result: dict[str, Any] = {**result_of(histogram_of(latencies(20.0)))}
    named = {"workload": "ranking_tiny"} | draw(st.dictionaries(NAMES, VALUES, max_size=4))
    options = draw(st.one_of(st.just(named), st.just(named), st.none(), st.lists(st.text(max_size=3), max_size=2)))
    return {**result, "config": {**result["config"], "options": options}}


PLAIN = documents().map(lambda document: json.dumps(document).encode())

TARGETS = (
    Target(
        "rerun",
        st.one_of(PLAIN, damaged(PLAIN), hostile_json(documents())),
        read_rerun,
        (ResultError, OptionError, typer.TyperException),
    ),
)
