"""A request as a YAML file: what is read, and what it says where a line is wrong."""

from pathlib import Path

import pytest

from servemark.documents.files import read_request, starter, text_of
from servemark.documents.load import Stage, Stages
from servemark.documents.request import RunRequest
from servemark.errors import OptionError


def test_stages_are_a_list_or_a_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("load: {kind: stages, stages: [{duration_s: 1m, rate: 5}, {duration_s: 2, rate: 1k}]}")
    (tmp_path / "b").write_text("load: {kind: stages, stages: '60:5,2:1000'}")
    for name in "ab":
        assert read_request(tmp_path / name).request.load == Stages(stages=(Stage(60, 5), Stage(2, 1000)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lod: {}", ":1: lod is not a field of a request\n  fix: did you mean load?"),
        (
            "load:\n  kind: constant-rate\n  rtae: 5",
            ":3: load.rtae is not a field of a request",
        ),
        ("load: {rate: 5}", ":1: load.kind '' is unknown\n  fix: one of: max-rate, trace, stages, constant-rate"),
        ("load:\n  kind: constant-rate\n", ":1: load: Object missing required field `rate`"),
        ("server: 5", ":1: server is not a group of fields"),
        ("load:\n  kind: constant-rate\n  rate: -5", ":3: load.rate -5 must be above 0"),
        ("load:\n  kind: constant-rate\n  rate: 5\n  gamma_cv: 2", ":2: --gamma-cv belongs to gamma arrivals"),
        ("live:\n  request_log: perhaps", ":2: live.request_log: Expected `bool`, got `str`"),
        ("inputs:\n  seed: 1\n  seed: 2", ":3: inputs.seed stands in line 2 already"),
        ("server: {url: [1]}", ":1: server.url: Expected `str`, got `array`"),
        ("server: {engine_options: [!x a=b]}", ":1: server.engine_options cannot be read: could not determine a const"),
        ("inputs: {shape: {[1]: [2]}}", ":1: inputs.shape cannot be read: found unhashable key"),
        ("live: {scrape: [2026-13-45]}", ":1: live.scrape cannot be read: month must be in 1..12"),
        ("- workload", "does not hold a request"),
        ("", "does not hold a request"),
        ("workload: 'x", ":1: found unexpected end of stream"),
        ("workload: *b", ":1: found undefined alias"),
        ("server: {streaming: true}", "--streaming is for gRPC"),
    ],
)
def test_a_line_that_is_wrong_is_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(OptionError) as raised:
        read_request(file)
    assert str(raised.value).startswith(str(file))
    assert words in str(raised.value)


def test_no_file(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\x00")
    for name, words in (("none", "No such file"), ("bytes", "cannot be read"), (".", "Is a directory")):
        with pytest.raises(OptionError, match=words):
            read_request(tmp_path / name)


def test_what_is_written_has_no_defaults() -> None:
    assert text_of(RunRequest(workload="x")).splitlines()[:2] == ["workload: x", "load:"]
    assert "server" not in text_of(RunRequest(workload="x"))


def test_a_starter_is_read_with_and_without_its_comments(tmp_path: Path) -> None:
    request = RunRequest(workload="x")
    file = tmp_path / "run.yaml"
    file.write_text("".join(starter(request)))
    assert read_request(file).request == request
