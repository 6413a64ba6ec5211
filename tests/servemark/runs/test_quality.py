"""`servemark quality`: labelled data through a real connection, scored by hand; failures, subsets, interruptions."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.inputs.sources import labelled_set
from loadgen.load.load_config import LoadConfig
from servemark.errors import InputDataError
from servemark.figures.registry import value_of
from servemark.quality.scoring import FILE
from servemark.results import directory
from servemark.runs import quality
from tests.support.command_line import Servemark
from tests.support.digits import COUNT, NAME, RIGHT, Scoring, served, write_digits
from tests.support.documents import validated
from tests.support.load_config import config as load_config
from tests.support.locust_run import the_result


def test_every_digit_is_sent_once_and_scored(scoring: Scoring, tmp_path: Path) -> None:
    done = scoring("-b", "3", "--report")
    sent = len(scoring.server.requests())
    result = validated(the_result(tmp_path))
    found = result["quality"]
    assert done.code == 0
    assert sent == 7  # 20 digits in batches of 3, the last one filled
    assert [figure["value"] for figure in found["figures"]] == [RIGHT / COUNT]
    [low, high] = found["figures"][0]["ci95"]
    assert 0.4 < low < RIGHT / COUNT < high < 1
    assert (found["outcome"], found["weights"]) == ("not judged", "unknown")
    assert (found["data"]["scored"], found["data"]["size"], found["data"]["subset_seed"]) == (COUNT, COUNT, None)
    assert "accuracy 0.7500: target >= 0.99, not judged" in done.out
    [folder] = tmp_path.glob("*-quality")
    assert "accuracy" in (folder / "report.html").read_text()
    assert scoring.servemark("show", str(folder)).out == done.out


def test_a_failed_request_is_a_wrong_answer(scoring: Scoring, data: Path, tmp_path: Path) -> None:
    with served(data, error_every=2) as server:
        done = scoring("--concurrency", "1", at=server)
    result = the_result(tmp_path)
    assert result["quality"]["wrong"] == result["errors"]["count"] == COUNT // 2
    # of the first 15, which are right, requests 2, 4, ... 14 fail
    assert result["quality"]["figures"][0]["value"] == (RIGHT - RIGHT // 2) / COUNT
    assert "10 requests failed: 10 examples count as wrong" in done.out


def test_a_server_that_only_fails_is_an_error(scoring: Scoring, data: Path) -> None:
    with served(data, error_every=1) as server:
        done = scoring(at=server)
    assert done.code == 3
    assert "none of the first 20 requests was answered: http_500" in done.err


def test_a_subset_is_drawn_by_the_seed_and_said(scoring: Scoring, tmp_path: Path) -> None:
    done = scoring("--samples", "6", "--seed", "3", below="1")
    scoring("--samples", "6", "--seed", "3", below="2")
    scoring("--samples", "6", "--seed", "4", below="3")
    first, again, other = (the_result(tmp_path / name)["quality"]["data"] for name in "123")
    assert first == again
    assert first["sha256"] != other["sha256"]
    assert "6 of 20 examples, a random subset by seed 3" in done.out


def test_an_interrupted_run_continues_where_it_stopped(
    scoring: Scoring, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = False

    def stop_once(self: quality.ScoredLoad, _now: int) -> None:
        nonlocal stopped
        if not stopped and len(self.scorer.journal.scored) >= 5:
            stopped = True
            raise KeyboardInterrupt

    monkeypatch.setattr(quality.ScoredLoad, "_tick", stop_once)
    with served(data, delay_s=0.02) as server:
        cut = scoring("--concurrency", "1", at=server)
        partial = validated(the_result(tmp_path))
        kept = partial["quality"]["data"]["scored"]
        done = scoring("--concurrency", "1", at=server)
        sent = len(server.requests())
    result = the_result(tmp_path)  # still one directory
    assert (cut.code, done.code, partial["partial"], result["partial"]) == (130, 0, True, False)
    assert 5 <= kept < COUNT
    assert result["quality"]["data"]["continued"] == kept
    assert sent <= COUNT + 1  # the one that was in flight
    assert result["quality"]["figures"][0]["value"] == RIGHT / COUNT


def test_changed_data_are_not_mixed_with_old_scores(scoring: Scoring, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(scoring.data, changed)
    scoring.data = changed
    scoring()
    scoring.cut_short()
    (changed / "mnist" / "t10k-images-idx3-ubyte").unlink()
    write_digits(changed, COUNT + 1)
    refused, fresh = scoring(), scoring("--fresh")
    assert refused.code == 3
    assert "the data set has changed" in refused.err
    assert fresh.code == 0


def test_a_server_of_our_own_may_have_another_port(
    data: Path, tmp_path: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    @contextlib.contextmanager
    def own(config: LoadConfig) -> Iterator[LoadConfig]:
        with served(data) as one, served(data) as other:  # by chance one may have the port of before
            used.append(other.url if one.url in used else one.url)
            yield config.at(used[-1])

    monkeypatch.setattr(quality, "one_server_for", own)
    command = ["quality", NAME, "--data-root", str(data), "--out", str(tmp_path), "--model-repository", str(tmp_path)]
    assert servemark(*command).code == 0
    [folder] = tmp_path.glob("*-quality")
    (folder / FILE).write_text("".join((folder / FILE).read_text().splitlines(keepends=True)[:5]))
    first = directory.read(folder)
    directory.write(folder, first | {"partial": True})
    assert servemark(*command).code == 0
    again = the_result(tmp_path)  # still one directory
    assert again["quality"]["data"]["continued"] == 5
    assert again["resolved"]["url"] != first["resolved"]["url"]


def test_answers_of_another_device_are_not_mixed(scoring: Scoring, tmp_path: Path) -> None:
    scoring()
    folder = scoring.cut_short(device="cuda:0")
    scoring()
    [again] = set(tmp_path.glob("*-quality*")) - {folder}
    assert directory.read(again)["quality"]["data"]["continued"] == 0


def test_a_line_cut_in_the_middle_is_scored_again(scoring: Scoring, tmp_path: Path) -> None:
    scoring()
    folder = scoring.cut_short()
    lines = (folder / FILE).read_text().splitlines(keepends=True)
    (folder / FILE).write_text("".join(lines[:-1]) + lines[-1][:5])
    scoring()
    assert the_result(tmp_path)["quality"]["data"]["continued"] == COUNT - 1
    assert sorted(json.loads(line)[0] for line in (folder / FILE).read_text().splitlines()) == list(range(COUNT))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quality", "ncf", "--input-data", "synthetic"], "synthetic requests have no labels"),
        (["quality", "ncf_tiny"], "no labels can be read for ncf_tiny"),
        (["quality", NAME, "--data-root", "/nowhere"], "the data set 'mnist' is not in /nowhere"),
        (["quality", NAME, "--samples", "0"], "--samples"),
        (["quality", NAME, "--in-process", "-u", "localhost:1"], "--in-process has no server"),
    ],
)
def test_what_cannot_be_scored_says_why(arguments: list[str], said: str, servemark: Servemark) -> None:
    done = servemark(*arguments)
    assert done.code == 3
    assert said in done.err


def test_labels_of_a_workload_without_a_data_set_need_a_path() -> None:
    config = load_config(NAME, "--input-data", "dataset")
    with pytest.raises(InputDataError, match="has no data set of its own") as error:
        labelled_set(replace(config, workload=replace(config.workload, dataset=None)))
    assert error.value.fix == "--input-data PATH"


def test_a_load_run_scores_what_it_was_answered(scoring: Scoring, tmp_path: Path) -> None:
    load = ["--quality", "--request-rate", "100", "--duration", "1", "--warmup", "0.3", "-b", "2"]
    done = scoring(*load, command="run")
    result = validated(the_result(tmp_path))
    score = result["details"]["quality"]["score"]
    assert value_of(result, "quality.value") == score["figures"][0]["value"] == RIGHT / COUNT
    assert score["data"]["scored"] == COUNT
    assert result["request"]["objectives"]["quality"]
    assert "quality: accuracy 0.7500: target >= 0.99, not judged" in done.out
