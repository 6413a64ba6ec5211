"""Recordings of the command line: what a comparison of two must tell, and what it must not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.behaviour import Command, diff, table

RUN = "run_open"


def result() -> dict[str, Any]:
    constraints = [{"name": "samples", "ok": True, "value": 50, "limit": 20, "unit": "requests", "remedy": "more"}]
    return {
        "config": {"url": "http://127.0.0.1:4711", "request_rate": 50.0},
        "request": {"load": {"kind": "constant-rate"}},
        "verdict": {"valid": True, "exit_code": 0, "objective": None, "constraints": constraints},
        "figures": {"latency.p50": {"value": 1.5, "unit": "ms", "n": 50}},
        "created": "2026-11-22T00:12:00+00:00",
    }


def recording(out: Path, document: dict[str, Any], said: str, code: int = 0, columns: str = "sent_ns,done_ns") -> Path:
    run = out / "commands" / RUN
    directory = run / "out" / f"20261122-00000{len(str(out)) % 10}-model"
    directory.mkdir(parents=True)
    (out / "places").write_text(f"/checkout\n{out}\n")
    (run / "code").write_text(f"{code}\n")
    (run / "stdout").write_text("")
    (run / "stderr").write_text(f"{said}\nresult: {directory}\n")
    (directory / "result.json").write_text(json.dumps(document))
    (directory / "requests.csv").write_text(f"{columns}\n1,{len(str(out))}\n")
    return out


def changed(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *groups, key = path.split("/")
        for group in groups:
            document = document[int(group)] if isinstance(document, list) else document[group]
        document[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (changed("figures/latency.p50/value", 7.5), ""),
        (changed("config/url", "http://127.0.0.1:9"), ""),
        (changed("created", "2027-01-01T00:00:00+00:00"), ""),
        (changed("figures/latency.p50/value", None), "figures.latency.p50.value\n    - number\n    + NoneType"),
        (changed("figures/latency.p50/n", 49), "figures.latency.p50.n\n    - 50\n    + 49"),
        (changed("figures/latency.p50/unit", "s"), 'figures.latency.p50.unit\n    - "ms"\n    + "s"'),
        (changed("config/request_rate", 60.0), "config.request_rate\n    - 50.0\n    + 60.0"),
        (changed("config/more", 1), "config.more\n    - -\n    + 1"),
        (changed("verdict/constraints/0/limit", 30), "constraints.samples.limit\n    - 20\n    + 30"),
        (changed("verdict/constraints/0/name", "few"), "constraints.few.limit\n    - -\n    + 20"),
        (changed("verdict/constraints/0/ok", False), "exit code\n    - as the constraints say\n    + 0, not 2"),
    ],
)
def test_documents(
    change: Callable[[dict[str, Any]], None], fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = result()
    change(document)
    before, after = recording(tmp_path / "a", result(), "said"), recording(tmp_path / "bb", document, "said")
    assert diff(before, after) == bool(fact)
    printed = capsys.readouterr().out
    assert fact in printed
    assert "words: no differences" in printed


def test_exit_codes_columns_and_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recording(tmp_path / "a", result(), "12 requests at http://127.0.0.1:80\nold words")
    after = recording(tmp_path / "bb", result(), "13 requests at http://127.0.0.1:81\nnew words", 99, "sent_ns")
    assert diff(before, after) == 1
    printed = capsys.readouterr().out
    assert "exit code\n    - as the constraints say\n    + 99" in printed
    assert "requests.csv columns\n    - sent_ns,done_ns\n    + sent_ns" in printed
    assert f"words: 2 differences\n  + new words\n    in {RUN}\n  - old words\n    in {RUN}\n" in printed


def test_words_are_no_facts(tmp_path: Path) -> None:
    before, after = (recording(tmp_path / said, result(), said) for said in ("one", "three"))
    assert diff(before, after) == 0


def test_the_table_has_each_name_once_and_no_shorthand_left() -> None:
    commands = table()
    assert len({command.name for command in commands}) == len(commands)
    assert Command("error_run_no_such", "3", "run no_such") in commands
    assert not any(short in command.line for command in commands for short in ("{run}", "{short}", "{places}"))
