"""`servemark tune`: real trials on the embedded Triton, what is written where, and what is never touched."""

import functools
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

import exporters
import servemark.search.tuning as bench_module
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.probe import probe
from loadgen.targets.open import open_target
from servemark.compare.interleaved.contenders import configuration, lay_out, parse_contenders
from servemark.compare.interleaved.preparation import Tuned, tune_contenders
from servemark.paths import shown
from servemark.repository.entry import Entry
from servemark.results import directory
from servemark.results.directory import JOURNAL
from servemark.results.schema.header import SCHEMA_VERSION
from servemark.runs.locust_process import drive_into
from servemark.search.trial import Candidate, Space, Trial
from servemark.search.tuning import ServedBench
from servemark.workload import get
from tests.support.command_line import Done, Servemark
from tests.support.documents import validated
from tests.support.exporting import Exports
from tests.support.load_config import config
from tests.support.triton import needs_triton
from tests.support.tuning_server import Server, key

TINY = "ranking_tiny"


@pytest.fixture
def entry(exported: Exports, tmp_path: Path) -> Entry:
    """An entry of one's own, which a test may change."""
    shared = exported(TINY, "onnxruntime")
    shutil.copytree(shared.folder, tmp_path / "model_repo" / shared.model)
    return Entry(tmp_path / "model_repo", TINY, "onnxruntime")


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The command's trials are those of a server known by formula: two instances do half as much again."""
    server = Server(lambda candidate: 1500.0 if candidate.instances == 2 else 1000.0)
    monkeypatch.setattr(
        ServedBench, "trial", lambda _, stage, candidate, load, number: server.trial(stage, candidate, load, number)
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return server


Tune = Callable[..., Done]


@pytest.fixture
def tune(servemark: Servemark, entry: Entry, tmp_path: Path) -> Tune:
    """The command, with an objective and a budget."""
    line = ["tune", TINY, "--slo", "p99:50", "--duration", "10", "--budget", "2000"]
    line += ["--model-repository", str(entry.repository), "--out", str(tmp_path / "out")]
    return functools.partial(servemark, *line)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is written


def test_the_winner_is_written_beside_the_file_of_before(
    tune: Tune, entry: Entry, tmp_path: Path, simulated: Server
) -> None:
    before = files(entry.repository)
    code, out, err = tune()
    assert code == 0
    [folder] = (tmp_path / "out").iterdir()
    assert folder.name.endswith(f"-tune-{entry.model}")
    document = validated(json.loads((folder / "tuning.json").read_text()))
    assert (document["kind"], document["schema_version"], document["outcome"]) == ("tuning", SCHEMA_VERSION, "better")
    assert document["environment"]["cpu"]
    assert document["ratio"]["ci95"][0] > 1

    text = entry.config.read_text()
    assert Candidate.of_config(text) == Candidate(**document["winner"]["candidate"])
    assert Candidate.of_config(text).instances == 2
    comment = [line for line in text.splitlines() if line.startswith("#")]
    assert "servemark tune ranking_tiny --slo p99:50" in comment[0]
    assert any("requests/s; ratio 1." in line and "95 % interval" in line for line in comment)
    after = files(entry.repository)
    assert after.pop(f"{entry.model}/config.pbtxt.before-tune") == before[f"{entry.model}/config.pbtxt"]
    assert {name for name in after if after[name] != before[name]} == {f"{entry.model}/config.pbtxt"}

    assert "<- winner" in out
    assert "present" in out
    assert f"{len(simulated.trials)}" == str(len((folder / JOURNAL).read_text().splitlines()) - 1)
    assert f"result: {shown(folder)}" in err

    # A later export takes it for an edited file.
    report = exporters.export(get(TINY), "onnxruntime", entry.repository)
    assert report.config_kept
    assert entry.config.read_text() == text


def test_a_dry_run_writes_nothing_and_prints_one_document(tune: Tune, entry: Entry, simulated: Server) -> None:
    before = files(entry.repository)
    code, out, _ = tune("--dry-run", "--json")
    document = json.loads(out)
    assert (code, document["outcome"]) == (0, "better")
    assert (document["written"], document["written_reason"]) == (None, "--dry-run")
    assert "real runs for 33.3 min at most (--budget)" in (err := tune("--dry-run").err)
    assert "--dry-run measures all the same" in err
    assert files(entry.repository) == before
    assert simulated.trials


def test_a_candidate_that_is_screened_again_is_not_told_like_a_new_one() -> None:
    first, again = (Trial("screen", Candidate(2, 1, 8, 0), 16, number, 3.0, throughput=24.0) for number in (0, 1))
    assert bench_module.line(first) == "screen  2 x 1 threads, batch 8, delay 0 us: 24 requests/s"
    assert bench_module.line(again) == "screen  2 x 1 threads, batch 8, delay 0 us, again: 24 requests/s"


def test_where_nothing_is_better_nothing_is_written(tune: Tune, entry: Entry, simulated: Server) -> None:
    simulated.capacity = lambda _: 1000.0
    before = files(entry.repository)
    code, out, _ = tune()
    assert code == 0
    assert "same: " in out
    assert "nothing written: same, not better" in out
    assert files(entry.repository) == before


def test_a_generator_that_limits_leaves_it_undecided(tune: Tune, simulated: Server) -> None:
    simulated.generator_above = 700.0
    code, out, _ = tune()
    assert code == 2
    assert "undecided: the present configuration: " in out
    assert "the generator" in out
    assert "to decide it" not in out


def test_other_work_leaves_it_undecided_and_it_is_said_what_to_do(tune: Tune, simulated: Server) -> None:
    simulated.disturbed = lambda _stage, _candidate: True
    code, out, _ = tune()
    assert code == 2
    assert "disturbed" in out
    assert "undecided: the present configuration: other work disturbed each of the first 3 runs" in out
    assert "to decide it: stop the other work and tune anew" in out


@pytest.mark.parametrize(("budget", "more"), [("100", "200"), ("2", "16")])
def test_a_budget_that_ended_too_early_says_how_much_more(
    tune: Tune, simulated: Server, budget: str, more: str
) -> None:
    code, out, _ = tune("--budget", budget)
    assert code == 2
    assert f"to decide it: --budget {more}, with --resume to continue from here" in out
    assert simulated.trials


def test_an_interrupted_search_writes_nothing_and_can_be_resumed(
    tune: Tune, entry: Entry, tmp_path: Path, simulated: Server
) -> None:
    before = files(entry.repository)
    simulated.stop_at = 9
    code, _, err = tune()
    [folder] = (tmp_path / "out").iterdir()
    assert code == 130
    assert f"--resume {shown(folder)}" in err
    assert files(entry.repository) == before
    assert len((folder / JOURNAL).read_text().splitlines()) == 1 + 9

    simulated.stop_at = None
    code, _, err = tune("--resume", str(folder), "--seed", "5")
    assert code == 3
    assert "seed was 0 and is 5" in err

    code, _, err = tune("--resume", str(folder))
    assert code == 0
    assert "9 turns are in the journal already" in err
    assert len({*map(key, simulated.trials)}) == len(simulated.trials)
    assert Candidate.of_config(entry.config.read_text()).instances == 2

    # By now the configuration is another one.
    code, _, err = tune("--resume", str(folder))
    assert code == 3
    assert "config_sha256 was" in err


def test_a_file_that_was_changed_meanwhile_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, tune: Tune, entry: Entry, simulated: Server
) -> None:
    measured = simulated.measured

    def meddling(stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        entry.config.write_text("# somebody's own\n")
        return measured(stage, candidate, load, number)

    monkeypatch.setattr(simulated, "measured", meddling)
    code, _, err = tune()
    assert code == 3
    assert "was changed while it was tuned" in err
    assert entry.config.read_text() == "# somebody's own\n"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--device", "tpu"], "--device 'tpu' is unknown"),
        (["--resume", "nowhere"], "cannot be read"),
    ],
)
def test_bad_flags_are_said_before_anything_is_served(
    tune: Tune, simulated: Server, flags: list[str], said: str
) -> None:
    code, _, err = tune(*flags)
    assert code == 3
    assert said in err
    assert not simulated.trials


# The real Triton


@pytest.fixture
def short_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"SCREEN_S": 0.3, "SCREEN_WARMUP_S": 0.1, "WARM_S": 0.1}.items():
        monkeypatch.setattr(bench_module, name, seconds)


class Drive:
    """Stands for `drive_into`: makes runs, or one request of this process with the first run's result."""

    def __init__(self) -> None:
        self.made, self.real = list[Any](), True

    def __call__(self, asked: LoadConfig, *files: Any) -> Any:
        if self.real:
            self.made.append(drive_into(asked, *files))
            return self.made[-1]
        target = open_target(asked)
        probe(target, target.payloads(None), 1, least_s=0, timeout_s=60)
        return self.made[0]


def workers(bench: ServedBench) -> set[psutil.Process]:
    assert bench._server is not None
    return set(bench._server.workers())


@needs_triton
@pytest.mark.usefixtures("short_screens")
def test_candidates_are_loaded_one_after_another_whatever_becomes_of_them(
    monkeypatch: pytest.MonkeyPatch, entry: Entry, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench_module, "drive_into", drive := Drive())
    before, text = files(entry.repository), entry.config.read_text()
    flags = ["--duration", "0.3", "--warmup", "0", "--slo", "p50:500", "--model-repository", str(entry.repository)]
    load = config(TINY, *flags)
    space = Space.of(text, cores=2, batch_size=1, largest=8)
    present = space.present
    other = Candidate(instances=2, threads=1, max_batch=4, queue_delay_us=100)
    impossible = Candidate(instances=1, threads=1, max_batch=4, queue_delay_us=100)
    (tmp_path / "out").mkdir()
    with ServedBench(load, text, space, tmp_path / "out") as bench:
        own = bench.text
        monkeypatch.setattr(bench, "text", lambda c: own(c).replace('"1"', '"many"') if c == impossible else own(c))
        moved = bench.trial("screen", other, 2, 0)
        assert moved.throughput
        served = directory.read(tmp_path / "out" / str(moved.directory))
        assert set(served["details"]["server"]["batch_sizes"]) <= {"1", "2", "3", "4"}
        drive.real = False
        assert bench.trial("screen", present, 2, 0).throughput
        # Triton would keep an instance of the same threads: nothing of the one before is left.
        [worker] = workers(bench)
        more = replace(present, instances=2)
        assert bench.trial("screen", more, 2, 0).throughput
        assert len(workers(bench) - {worker}) == 2
        assert worker not in workers(bench)
        failed = bench.trial("screen", impossible, 2, 0)
        assert failed.throughput is None
        assert "intra_op_thread_count is 'many'" in str(failed.failure)
        drive.real = True
        run = bench.trial("search", present, 50.0, 1)
        assert run.point is not None
        assert (run.point.rate, run.failure) == (50.0, None)
        # A process that dies takes its trial with it, not its candidate, though the configuration stays the same.
        [worker] = workers(bench)
        worker.kill()
        assert bench.trial("screen", present, 2, 1).failure
        drive.real = False
        assert bench.trial("screen", present, 2, 2).throughput
        # A server that dies takes its candidate with it, not the search.
        triton = workers(bench).pop().parent()
        assert triton is not None
        triton.kill()
        psutil.wait_procs([triton], timeout=20)
        drive.real = True
        gone = [bench.trial("screen", present, 2, 3)]
        drive.real = False
        gone.append(bench.trial("screen", present, 2, 4))
        assert gone[-1].throughput, gone
        assert all(trial.seconds > 0 for trial in gone)
    assert files(entry.repository) == before


@needs_triton
@pytest.mark.usefixtures("short_screens")
def test_a_short_tuning_from_end_to_end(servemark: Servemark, entry: Entry, tmp_path: Path) -> None:
    """Whatever it finds on a busy machine in so little time, it says so in the same words."""
    before = entry.config.read_text()
    flags = ["--slo", "p50:200", "--duration", "0.6", "--warmup", "0.1", "--budget", "15"]
    # Not the fixture's command: --slo adds an objective, and so little time cannot decide a p99.
    where = ["--model-repository", str(entry.repository), "--out", str(tmp_path / "out")]
    code, out, err = servemark("tune", TINY, *flags, *where, "--json")
    assert out, err
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    [folder] = (tmp_path / "out").iterdir()
    assert code == {"better": 0, "same": 0, "missed": 4, "undecided": 2}[document["outcome"]]
    assert validated(document) == json.loads((folder / "tuning.json").read_text())
    assert document["present"]["config"] == before
    assert document["present"]["text"] in [row["text"] for row in document["candidates"]]
    asked, *lines = map(json.loads, (folder / JOURNAL).read_text().splitlines())
    assert asked["flags"]["slo"] == "p50:200"
    assert document["spent_s"] == pytest.approx(sum(line["outcome"]["seconds"] for line in lines), abs=0.01)
    for line in lines:
        trial = msgspec.convert(line["outcome"], Trial)
        assert trial.failure or directory.read(folder / str(trial.directory))["workload"] == TINY
    if document["winner"] is None:
        assert entry.config.read_text() == before
        assert document["written_reason"]
    else:
        assert Candidate.of_config(entry.config.read_text()) == Candidate(**document["winner"]["candidate"])


# Comparing tuned engines


def tuned(entry: Entry, out: Path, budget_s: float = 2000) -> tuple[dict[str, str], dict[str, Tuned]]:
    """Two contenders that are alike, as they are configured, and what their tuning came to."""
    load = config(
        TINY, "--slo", "p99:50", "--duration", "10", "--model-repository", str(entry.repository), "--out", str(out)
    )
    chosen = parse_contenders("onnxruntime,onnxruntime", "fp32")
    configs = {contender.label: configuration(contender, entry, "cpu") for contender in chosen}
    return configs, tune_contenders(chosen, load, configs, budget_s=budget_s)


def test_a_comparison_takes_what_was_tuned_and_writes_nothing(entry: Entry, tmp_path: Path, simulated: Server) -> None:
    before = files(entry.repository)
    _, found = tuned(entry, tmp_path / "out")
    assert len({*map(key, simulated.trials)}) == len(simulated.trials)  # alike: tuned once
    for each in found.values():
        assert each.to_dict()["taken"].startswith("2 x")
        assert (Path(each.directory) / "tuning.json").exists()
    texts = {label: each.config for label, each in found.items()}
    served, models = lay_out(dict.fromkeys(texts, entry), texts, entry.repository, tmp_path / "scratch")
    assert set(models.values()) == {entry.model}
    assert Candidate.of_config((served / entry.model / "config.pbtxt").read_text()).instances == 2
    assert files(entry.repository) == before

    simulated.capacity = lambda _: 1000.0
    configs, found = tuned(entry, tmp_path / "out")
    same = found["onnxruntime"]
    assert same.config == configs["onnxruntime"]
    assert (same.to_dict()["outcome"], same.remedy) == ("same", None)


def test_a_comparison_says_what_would_decide_an_undecided_tuning(
    entry: Entry, tmp_path: Path, simulated: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    short = tuned(entry, tmp_path / "out", 100)[1]["onnxruntime"].to_dict()
    assert (short["outcome"], short["lacked"], short["remedy"]) == ("undecided", "time", "--tune-budget 200")
    assert short["taken"].startswith("1 x")
    said = capfd.readouterr().err
    assert "onnxruntime takes part as configured, which may not be its best\n  fix: --tune-budget 200" in said
    simulated.generator_above = 700.0
    assert "--batch-size" in str(tuned(entry, tmp_path / "out")[1]["onnxruntime"].remedy)
