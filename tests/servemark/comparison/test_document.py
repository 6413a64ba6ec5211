"""Engines side by side: the arithmetic on made-up rounds, the report, and the command against real servers."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters.pipeline import config_pbtxt
from servemark.comparison import warm_up
from servemark.comparison.contenders import Contender, able, configured, contenders, placed
from servemark.comparison.document import Turn, rows
from servemark.errors import ArtifactError, OptionError
from servemark.max_rate.refinement import HighestRate
from servemark.report.html import comparison
from servemark.report.html.comparison import page
from servemark.report.terminal.comparison import markdown
from servemark.repository.entry import Entry
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.command_line import Servemark
from tests.support.locust_run import server_of, started, until
from tests.support.results import NO_METER, histogram_of, result_of
from tests.support.rounds import Row, document_of, rounds_of, shown, turn

TINY = "ranking_tiny"


def test_known_ratios_come_out_of_a_drifting_machine() -> None:
    first, slow, same = rows(rounds_of(a=1, b=2, c=1), ["a", "b", "c"])
    assert first["ratio"] == {
        "p50": None,
        "p99": None,
        "inferences_per_s": None,
        "max_rate": None,
        "reason": "the others are held against this one",
    }
    assert slow["ratio"]["p50"]["value"] == pytest.approx(2, rel=0.01)
    assert slow["ratio"]["p50"]["ci95"] == pytest.approx([2, 2], rel=0.01)
    assert slow["ratio"]["inferences_per_s"]["value"] == pytest.approx(0.5)
    assert slow["ratio"]["inferences_per_s"]["significant"] is True
    assert same["ratio"]["p50"]["significant"] is False
    assert slow["variation"]["p50"] > 0.2


def test_percentiles_are_of_all_rounds_together_and_never_averaged() -> None:
    fast, slow = histogram_of(np.full(900, 10.0)), histogram_of(np.full(300, 50.0))
    turns = [Turn(n, "a", "d", result_of(h), h) for n, h in enumerate((fast, slow), start=1)]
    [row] = rows(turns, ["a"])
    assert row["latency_ms"]["count"] == 1200
    assert row["latency_ms"]["p50"] == pytest.approx(10, rel=1e-3)
    assert row["latency_ms"]["p99"] == pytest.approx(50, rel=1e-3)


def test_a_percentile_needs_its_samples() -> None:
    [row, _] = rows(rounds_of(2, a=1, b=1), ["a", "b"])
    assert row["latency_ms"]["p99"] is None
    assert row["latency_ms"]["p99_reason"] == "needs 1000 samples, has 800: raise --duration"
    assert row["latency_ms"]["p90"] > 0


def test_few_rounds_have_a_ratio_without_an_interval() -> None:
    _, row = rows(rounds_of(3, a=1, b=3), ["a", "b"])
    assert row["ratio"]["p50"]["value"] == pytest.approx(3, rel=0.01)
    assert (row["ratio"]["p50"]["ci95"], row["ratio"]["p50"]["significant"]) == (None, None)
    assert row["ratio"]["ci95_reason"] == "needs 5 rounds, has 3: raise --pairs"
    assert row["variation"]["reason"].startswith("needs 4 rounds")


def test_a_run_that_was_cut_short_is_listed_and_takes_no_part() -> None:
    turns = [*rounds_of(5, a=1, b=2), turn(6, "a", 10), turn(6, "b", 900, partial=True)]
    found = document_of(turns, ["a", "b"], "interrupted")
    assert (found["rounds_done"], len(found["turns"]), found["partial"]) == (5, 12, True)
    assert found["turns"][-1]["partial"] is True
    [_, row] = found["rows"]
    assert row["rounds"] == 5
    assert row["ratio"]["p50"]["value"] == pytest.approx(2, rel=0.01)
    assert "partial: interrupted" in shown(found)


def test_invalid_rounds_are_shown_and_mark_their_ratio() -> None:
    turns = [*rounds_of(4, a=1, b=2), turn(5, "a", 10), turn(5, "b", 20, failed=("error_share",))]
    found = document_of(turns, ["a", "b"])
    [a, b] = found["rows"]
    assert (a["verdict"]["valid"], b["verdict"]["valid_rounds"]) == (True, 4)
    assert b["verdict"]["failed"] == {"error_share": 1}
    text = shown(found)
    assert "INVALID 1 of 5" in text
    assert "b: not every round is VALID (error_share in 1 of 5): mend error_share" in text
    assert "2.00" in text
    assert "* a ratio that rests on INVALID rounds" in text


def test_energy_is_over_all_rounds_or_null_with_the_reason() -> None:
    metered = [turn(n, "a", 10, joules=joules) for n, joules in enumerate((1.0, 3.0), start=1)]
    assert rows(metered, ["a"])[0]["energy"] == {"joules_per_inference": 2.0, "boundary": "cpu_package"}
    [row] = rows([*metered, turn(3, "a", 10)], ["a"])
    assert row["energy"] == {"joules_per_inference": None, "reason": NO_METER}


def test_outputs_are_those_of_all_rounds() -> None:
    [row] = rows([turn(1, "a", 10, top1=1.0), turn(2, "a", 10, top1=0.5)], ["a"])
    assert (row["output_agreement"]["checked"], row["output_agreement"]["top1_agreement"]) == (100, 0.75)


def test_a_round_without_answers_leaves_no_ratio() -> None:
    turns = [*rounds_of(5, a=1, b=2), turn(6, "a", 10), turn(6, "b", 20, rate=0.0)]
    _, row = rows(turns, ["a", "b"])
    assert row["ratio"]["inferences_per_s"] is None
    assert row["ratio"]["inferences_per_s_reason"]


def test_highest_rates_have_a_ratio_of_their_rounds_or_the_reason() -> None:
    [first, fast, same] = [HighestRate(None, None, "x", rounds) for rounds in ([400, 410], [800, 820], [405, 400])]
    for rate in (first, fast, same):
        rate.rounds.append(rate.rounds[0] * 1.01)
    found = document_of(rounds_of(5, a=1, b=1, c=1), list("abc"), highest={"a": first, "b": fast, "c": same})
    [a, b, c] = found["rows"]
    assert (a["max_rate"]["rate"], a["ratio"]["max_rate"]) == (pytest.approx(first.rate), None)
    assert b["ratio"]["max_rate"]["value"] == pytest.approx(2, rel=0.1)
    assert (b["ratio"]["max_rate"]["significant"], c["ratio"]["max_rate"]["significant"]) == (True, False)
    assert "max rate ratio" in shown(found)
    assert "not searched for" not in shown(found)
    none = HighestRate(None, "p99 needs 1,126 requests in a run; --duration 60", "max-rate-a")
    found = document_of(rounds_of(5, a=1, b=1), ["a", "b"], highest={"a": none})
    assert found["rows"][0]["max_rate"]["rate"] is None
    assert "max rate: p99 needs 1,126 requests in a run; --duration 60 (a)" in shown(found)


def test_the_table_says_what_is_chance_and_what_is_missing() -> None:
    left_out = [{"label": "tensorrt", "reason": "no GPU"}]
    found = document_of(rounds_of(a=1, b=2, c=1), ["a", "b", "c"], left_out=left_out)
    found["rows"][1]["precision"] = "int8"
    text = shown(found)
    assert text.count("not significant") == 2
    assert "tensorrt was left out: no GPU" in text
    assert "precisions differ (fp32, int8)" in text
    assert f"J/inference: {NO_METER}" in text
    assert "max rate: not searched for" in text
    table = markdown(found)
    assert "| a | cpu | 1 x all | fp32 | 1e-06, 1 |" in table
    assert "| max rate |" not in table
    assert "| against a | p50 ratio | throughput ratio |" in table


def test_the_table_says_how_each_engine_ran_and_what_its_tuning_came_to() -> None:
    better = {"outcome": "better", "ratio": {"value": 1.318}, "reason": "it does more", "taken": "2 x 1 threads"}
    same = {"outcome": "same", "ratio": None, "reason": "none is faster", "taken": "1 x all threads"}
    tuned = {"a": better, "b": same}
    configurations = {"a": {"instances": 2, "threads": 1}, "b": {"instances": 1, "threads": 0}}
    turns = [turn(n, "a", 10, provider="CPUExecutionProvider") for n in range(1, 3)]
    turns += [turn(n, "b", 10, provider="CPU:0 graph") for n in range(1, 3)]
    found = document_of(turns, ["a", "b"], tuned=tuned, configurations=configurations)
    table = markdown(found)
    assert "| a | cpu | 2 x 1 | fp32 | 1e-06, 1 | better, 1.32 |" in table
    assert "| b | cpu, graph | 1 x all | fp32 | 1e-06, 1 | same |" in table
    assert "b was tuned first, same: none is faster; it ran with 1 x all threads" in table
    given = document_of(turns, ["a", "b"], configurations={})
    assert "configuration: a server that runs already has its own" in shown(given)


def test_the_page_needs_nothing_else() -> None:
    html = page(document_of(rounds_of(a=1, b=2), ["a", "b"], workload="<b>"))
    assert "<script src=" not in html
    assert "Plotly.newPlot" in html
    assert "&lt;b&gt; side by side" in html
    json.dumps(html)


@pytest.mark.parametrize("values", [(1.0, 0.8), (1.0, 1.25), (1.0, 1.0), (0.87, 2.2), (0.1, 10.0), (1.0, 100.0)])
def test_ticks_are_few_and_apart(values: tuple[float, ...]) -> None:
    ticks = comparison._ticks(values)
    assert 4 <= len(ticks) <= 8
    assert min(values) / 1.1 <= ticks[0] < ticks[-1] <= max(values) * 1.1
    steps = np.diff(np.log(ticks))
    assert min(steps) > np.log(max(values) / min(values) * 1.21) / 20


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("onnxruntime", "names one engine"),
        ("onnxruntime,nope", "engine 'nope' is unknown"),
        ("onnxruntime,pytorch@fp7", "precision 'fp7' is unknown"),
        ("onnxruntime,py torch", "is not ENGINE"),
        ("onnxruntime,pytorch:compile", "is not ENGINE"),
        ("onnxruntime,,pytorch", "is not ENGINE"),
    ],
)
def test_engines_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        contenders(text, "fp32")


def test_engines_with_precision_options_and_twice() -> None:
    found = contenders("onnxruntime, pytorch@fp16:compile=true:x=2,onnxruntime", "int8")
    assert found == [
        Contender("onnxruntime", "int8", "onnxruntime", {}),
        Contender("pytorch", "fp16", "pytorch@fp16:compile=true:x=2", {"compile": "true", "x": "2"}),
        Contender("onnxruntime", "int8", "onnxruntime#2", {}),
    ]
    assert found[1].slug == "pytorch@fp16-compile-true-x-2"


def test_an_engine_that_cannot_take_part_is_an_error_or_left_out_with_its_reason() -> None:
    chosen = contenders("onnxruntime,pytorch,onnxruntime", "fp32")

    def step(contender: Contender) -> None:
        if contender.engine == "pytorch":
            raise ArtifactError("no such package", fix="install it")

    with pytest.raises(ArtifactError, match="pytorch cannot be compared here: no such package") as error:
        able(chosen, step, {}, skip=False)
    assert error.value.fix == "install it; or leave it out with --skip-unavailable"
    left_out: dict[str, str] = {}
    found = able(chosen, step, left_out, skip=True)
    assert ([c.label for c in found], left_out) == (
        ["onnxruntime", "onnxruntime#2"],
        {"pytorch": "no such package"},
    )
    with pytest.raises(OptionError, match="1 of 2 engines"):
        able(chosen[:2], step, {}, skip=True)


def check_rounds(found: Row, folder: Path, turns: list[str]) -> None:
    """The directories tell the order, and each holds a whole result with its round's seed."""
    directories = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert directories == [f"{number:02}-{label}" for number, label in enumerate(turns, start=1)]
    assert [each["directory"] for each in found["turns"]] == directories
    for each in found["turns"]:
        result = json.loads((folder / each["directory"] / "result.json").read_text())
        assert result["partial"] is False
        assert result["config"]["engine"] == each["label"].partition("#")[0]
        assert result["seed"] == each["seed"] == found["seed"] + each["round"] - 1
        assert result["metrics"]["errors"]["count"] == 0


@pytest.mark.timeout(600)  # two exports, a server and six runs, on a machine that may be doing other things
def test_two_engines_on_the_embedded_triton(
    monkeypatch: pytest.MonkeyPatch, servemark: Servemark, tmp_path: Path
) -> None:
    monkeypatch.setattr(warm_up, "WARM_S", 0.2)
    flags = ["--pairs", "2", "--duration", "0.6", "--warmup", "0.1", "--seed", "5", "--json"]
    places = ["--model-repository", str(tmp_path / "models"), "--out", str(tmp_path / "out")]
    # so short a run is never steady, which is said and not hidden
    code, out, _ = servemark("compare", TINY, "--engines", "onnxruntime,pytorch", *flags, *places)
    assert code == 2
    found = json.loads(out)
    [folder] = (tmp_path / "out").iterdir()
    assert json.loads((folder / "comparison.json").read_text()) == found
    check_rounds(found, folder, ["onnxruntime", "pytorch", "pytorch", "onnxruntime"])
    assert [row["label"] for row in found["rows"]] == ["onnxruntime", "pytorch"]
    assert (found["partial"], found["rounds_done"], found["kind"]) == (False, 2, "comparison")
    for row in found["rows"]:
        runs = [json.loads((folder / t["directory"] / "result.json").read_text()) for t in found["turns"]]
        own = [run["metrics"]["latency_ms"]["count"] for run in runs if run["engine"] == row["engine"]]
        assert row["latency_ms"]["count"] == sum(own)
        assert (row["device"], row["precision"], row["rounds"]) == ("cpu", "fp32", 2)
        assert row["output_agreement"]["checked"] > 0
    assert "side by side" in (folder / "comparison.md").read_text()
    assert (folder / "comparison.html").stat().st_size > 1e6


@pytest.fixture(scope="module")
def ranking() -> Any:
    with server_of(get(TINY), delay_s=0.01) as server:
        yield server


def test_an_engine_twice_on_a_given_server(
    monkeypatch: pytest.MonkeyPatch, servemark: Servemark, tmp_path: Path, ranking: GoldenServer
) -> None:
    monkeypatch.setattr(warm_up, "WARM_S", 0.2)
    ranking.reset()
    flags = ["--pairs", "1", "--duration", "0.5", "--warmup", "0", "-u", ranking.url, "--out", str(tmp_path)]
    code, out, err = servemark("compare", TINY, "--engines", "onnxruntime,onnxruntime", *flags)
    [folder] = tmp_path.iterdir()
    found = json.loads((folder / "comparison.json").read_text())
    assert code == 2
    check_rounds(found, folder, ["onnxruntime", "onnxruntime-2"])
    assert "against onnxruntime" in out
    assert "round 1/1  onnxruntime#2" in err
    # what was sent besides the rounds is the two warm-ups
    assert len(ranking.requests()) > sum(row["latency_ms"]["count"] for row in found["rows"])


def test_an_interrupted_comparison_keeps_its_rounds(tmp_path: Path, ranking: GoldenServer) -> None:
    ranking.reset()
    flags = ["--pairs", "50", "--duration", "0.3", "--warmup", "0", "-u", ranking.url, "--out", str(tmp_path)]
    command = [sys.executable, "-m", "servemark", "compare", TINY, "--engines", "onnxruntime,onnxruntime", *flags]
    with started(command, tmp_path / "log") as process:
        until(lambda: list(tmp_path.glob("*/comparison.json")), "the first round")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    found = json.loads((folder / "comparison.json").read_text())
    assert (found["partial"], found["partial_reason"]) == (True, "interrupted")
    assert found["rounds_done"] >= 1
    assert [row["rounds"] >= 1 for row in found["rows"]] == [True, True]
    assert (folder / "comparison.html").exists()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_contenders_with_options_are_models_of_their_own(tmp_path: Path) -> None:
    workload = get(TINY)
    entry = Entry(tmp_path / "models", TINY, "pytorch")
    entry.version.mkdir(parents=True)
    (entry.version / "model.pt2").write_bytes(b"a program")
    text = config_pbtxt.render(workload, model=entry.model, engine="pytorch", artifact="model.pt2", device="cpu")
    entry.config.write_text(text)
    chosen = contenders("pytorch,pytorch:compile=true,pytorch:compile=true", "fp32")
    configs = configured(chosen, workload, tmp_path / "models", "cpu")
    served, models = placed(chosen, workload, tmp_path / "models", configs, tmp_path / "scratch")
    assert served == tmp_path / "scratch"
    assert list(models.values()) == [f"{TINY}_pytorch", f"{TINY}_pytorch_2", f"{TINY}_pytorch_2"]
    changed = (served / f"{TINY}_pytorch_2" / "config.pbtxt").read_text()
    assert f'name: "{TINY}_pytorch_2"' in changed
    assert "compile" in changed
    assert "compile" not in (served / f"{TINY}_pytorch" / "config.pbtxt").read_text()
    assert (served / f"{TINY}_pytorch_2" / "1" / "model.pt2").is_file()
    unchanged = configured(chosen[:1], workload, tmp_path / "models", "")
    plain, names = placed(chosen[:1], workload, tmp_path / "models", unchanged, tmp_path / "scratch")
    assert (plain, names) == (tmp_path / "models", {"pytorch": f"{TINY}_pytorch"})
