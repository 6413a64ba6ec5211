"""A mix of workloads on one server: each at its share and with its own figures, the whole beside them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from loadgen.evaluation.mix import Part, parse_mix, requests_of, total
from loadgen.load.arrivals import schedule
from servemark.documents.load import ConstantRate, Distribution
from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.figures.evidence import Energy, Evidence, Generator
from servemark.figures.registry import count_of, figures_of, value_of, why_unknown
from servemark.figures.throughput import NOT_BEGUN
from servemark.results import directory
from servemark.stats.histogram import Histogram
from servemark.workload import get
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.load_config import config
from tests.support.locust_run import server_of

INFER = "POST /v2/models/{}_onnxruntime/infer"


def test_shares_add_up_to_one() -> None:
    assert parse_mix("ranking=0.7,ncf=0.3") == {"ranking": 0.7, "ncf": 0.3}
    assert parse_mix(" a=3, b=1 ") == {"a": 0.75, "b": 0.25}


def test_a_part_may_have_its_own_batch_and_shapes() -> None:
    assert parse_mix("ranking:batch=1=3,ranking:batch=8=1") == {"ranking:batch=1": 0.75, "ranking:batch=8": 0.25}
    assert requests_of("ranking:batch=8") == ("ranking", {"batch_size": 8})
    assert requests_of("deepspeech2:spect=161x400") == ("deepspeech2", {"shape": {"spect": (161, 400)}})
    assert requests_of("ranking") == ("ranking", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ranking=1", "a mix of one workload"),
        ("ranking=1,ncf", "'ncf' is not WORKLOAD=SHARE"),
        ("ranking=1,=2", "'=2' is not WORKLOAD=SHARE"),
        ("ranking=1,ncf=0", "share above 0"),
        ("ranking=1,ncf=much", "'ncf=much' is not WORKLOAD=SHARE"),
        ("ranking=1,ncf=inf", "share above 0"),
        ("ranking=1,ranking=2", "'ranking' is twice in the mix"),
        ("ranking=1,ranking:batch=none=2", "the mix's batch"),
        ("ranking=1,ranking:=2", "is not WORKLOAD"),
        ("ranking=1,deepspeech2:spect=0x2=1", "the mix's spect"),
    ],
)
def test_bad_mixes(text: str, words: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_mix(text)
    assert words in error.value.what


def test_independent_poisson_processes_are_a_poisson_process_dealt_out() -> None:
    """The theorem that the mix rests on: the whole is Poisson, and who comes next is as if drawn with the shares."""
    one, other = (schedule(Distribution.POISSON, rate, 100, seed) for rate, seed in ((140.0, 0), (60.0, 1)))
    whole = np.sort(np.concatenate([one, other]))
    assert stats.kstest(np.diff(whole) / 1e9, "expon", args=(0, 1 / 200)).pvalue > 0.001
    mine = np.isin(whole, one)
    assert mine.mean() == pytest.approx(0.7, abs=4 * np.sqrt(0.7 * 0.3 / len(whole)))
    assert abs(np.corrcoef(mine[:-1], mine[1:])[0, 1]) < 4 / np.sqrt(len(whole))


def part(name: str, latencies_ms: list[float], *, errors: int = 0, code: int = 0, by: str | None = None) -> Part:
    """A workload's result as the load generator writes it, as far as the whole is made of it; empty: cut short."""
    histogram = Histogram()
    histogram.record((np.array(latencies_ms) * 1e6).astype(np.int64))
    count, sent = len(latencies_ms), len(latencies_ms) + errors
    rate = count / 10
    encoded = dict.fromkeys(("latency_us", "service_time_us", "schedule_delay_us"), histogram.encode())
    delay = Histogram.decode(encoded["schedule_delay_us"])
    histogram.failed = errors
    evidence = Evidence(
        measured_s=10.0 if sent else 0.0, latency=histogram, service_time=histogram, schedule_delay=delay,
        scheduled=sent, completed=count, good=count, errors={"timeout": errors} if errors else {},
        energy=Energy(joules=0.3 * count), generator=Generator(0.2 if sent else None, max_in_flight=4, outside=2),
    )  # fmt: skip
    note = {"priority_note": "what b was refused"} if name == "b" else {}
    result: Any = {
        "workload": name,
        "batch_size": 1,
        "resolved": {"url": "http://h:1"},
        "scenario": {},
        "verdict": {
            "valid": code == 0, "objective": None, "exit_code": code, "objectives": [], "skipped": {},
            "constraints": [{"name": "error_rate", "ok": code == 0, "value": 0, "limit": 0, "unit": "", "remedy": ""}],
        },
        "bottleneck": {"by": by, "evidence": f"what {name} says"},
        "figures": figures_of(evidence),
        "details": {
            "errors": {"by_kind": evidence.errors, "messages": {}},
            "energy": {},
            "generator": {"priority": "slice" if name == "b" else "realtime", **note},
        },
        "windows": [{"start_s": 0.0, "requests_per_s": rate, "count": 100, "p50_ms": 1.0, "errors": errors}],
        "partial": False,
    }  # fmt: skip
    return Part(name, rate, name, result, encoded)


def request(rate: float) -> RunRequest:
    return RunRequest(workload="a=0.9,b=0.3", load=ConstantRate(rate=rate))


def test_the_whole_is_merged_not_averaged() -> None:
    rng = np.random.default_rng(0)
    fast, slow = rng.uniform(1, 2, 900).tolist(), rng.uniform(50, 90, 300).tolist()
    document: Any = total([part("a", fast), part("b", slow, errors=6, code=2, by="server")], request(120.0))
    both = np.array(fast + slow)
    assert count_of(document, "requests.answered") == 1200
    for key, value in (("mean", both.mean()), ("stdev", both.std()), ("min", both.min()), ("max", both.max())):
        assert value_of(document, f"latency.{key}") == pytest.approx(value, rel=1e-4)
    for percentile in (50, 90, 99):
        exact = np.percentile(np.append(both, [np.inf] * 6), percentile, method="inverted_cdf")
        assert value_of(document, f"latency.p{percentile}") == pytest.approx(exact, rel=2e-3)
    assert value_of(document, "throughput.requests") == pytest.approx(120)
    assert document["details"]["errors"]["by_kind"] == {"timeout": 6}
    assert value_of(document, "errors.share") == pytest.approx(6 / 1206)
    assert document["figures"]["tail_bound.p50"]["n"] == 1206
    assert document["details"]["generator"] == {"priority": "slice", "priority_note": "b: what b was refused"}
    # one meter read both: the joules of the first process, over the inferences of both
    assert value_of(document, "energy.per_inference") == pytest.approx(0.3 * 90 / 120)
    assert document["windows"][0]["requests_per_s"] == pytest.approx(120)
    assert (document["windows"][0]["count"], document["windows"][0]["p50_ms"]) == (200, None)
    assert (document["verdict"]["valid"], document["verdict"]["exit_code"]) == (False, 2)
    assert {c["name"]: c["ok"] for c in document["verdict"]["constraints"]} == {
        "a.error_rate": True, "b.error_rate": False,
    }  # fmt: skip
    assert document["bottleneck"] == {"by": "server", "evidence": "a: what a says; b: what b says"}
    assert [entry["workload"] for entry in document["mix"]] == ["a", "b"]
    assert value_of(document["mix"][1], "energy.total") is None
    directory.to_json(document)


def test_nothing_limits_a_mix_where_nothing_limits_its_workloads() -> None:
    parts = [part("a", [1.0, 2.0]), part("b", [1.0])]
    for each in parts:
        each.result["bottleneck"]["evidence"] = "nothing: kept up with the schedule"
    assert total(parts, request(3.0))["bottleneck"] == {"by": None, "evidence": "nothing: kept up with the schedule"}
    parts[1].result["bottleneck"]["evidence"] = "not known: no request succeeded"
    assert total(parts, request(3.0))["bottleneck"] == {
        "by": None, "evidence": "not known: a: nothing: kept up with the schedule; b: not known: no request succeeded",
    }  # fmt: skip


def test_what_one_workload_does_not_know_is_not_known_of_the_whole() -> None:
    parts = [part("a", [1.0, 2.0]), part("b", [])]
    document = total(parts, request(1.0))
    for tag in ("throughput.requests", "generator.cpu"):
        assert (value_of(document, tag), why_unknown(document, tag)) == (None, NOT_BEGUN)
    assert count_of(document, "requests.answered") == 2


def test_failed_requests_are_the_longest_also_of_a_workload_that_had_no_answer() -> None:
    document = total([part("a", [], errors=100), part("b", [1.0] * 300)], request(40.0))
    assert value_of(document, "latency.p50") == pytest.approx(1, rel=1e-3)
    assert value_of(document, "latency.p90") is None


def test_a_mix_drives_each_workload_at_its_share_and_together(servemark: Servemark, tmp_path: Path) -> None:
    """Two names of one model on the golden server, whose log has what each received; one has batches of four."""
    with server_of(get("ranking_tiny"), aliases=["ranking_onnxruntime"]) as server:
        flags = ["--request-rate", "120", "--duration", "1", "--warmup", "0.2", "--seed", "3", "--json"]
        flags += ["--model-repository", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
        code, out, err = servemark("run", "ranking_tiny:batch=4=3,ranking=1", "-u", server.url, *flags)
        log = server.log()
    assert code in {0, 2}, err
    document = json.loads(out)
    [folder] = (tmp_path / "out").iterdir()
    assert document == directory.read(folder)
    for entry, model, seed in zip(document["mix"], ("ranking_tiny", "ranking"), (3, 4), strict=True):
        rate = 120 * entry["share"]
        alone = config("ranking_tiny", "--request-rate", str(rate), "--duration", "1", "--warmup", "0.2")
        arrivals = alone.scenario.schedule(seed)
        assert arrivals is not None
        expected = len(arrivals) + 1  # the first one alone
        outside = count_of(entry, "generator.requests_outside_interval")
        assert count_of(entry, "requests.answered") + outside == expected
        assert log["paths"][INFER.format(model)] == expected
        assert directory.read(folder / entry["directory"])["verdict"] == entry["verdict"]
    parts = [(entry["share"], entry["batch_size"], entry["directory"]) for entry in document["mix"]]
    assert parts == [(0.75, 4, "ranking_tiny_onnxruntime-batch-4"), (0.25, 1, "ranking_onnxruntime")]
    assert value_of(document, "requests.answered") == sum(count_of(e, "requests.answered") for e in document["mix"])
    requests, samples = (
        [entry["figures"][f"throughput.{what}"]["value"] for entry in document["mix"]]
        for what in ("requests", "inferences")
    )
    assert samples == pytest.approx([4 * requests[0], requests[1]])
    assert value_of(document, "throughput.inferences") == pytest.approx(sum(samples))
    names = {c["name"].partition(".")[0] for c in document["verdict"]["constraints"]}
    assert names == {"ranking_tiny:batch=4", "ranking"}
    assert not (folder / "begin").exists()


def test_a_workload_that_the_server_does_not_have_ends_the_mix(servemark: Servemark, tmp_path: Path) -> None:
    with server_of(get("ranking_tiny")) as server:
        line = ["run", "ranking_tiny=1,ranking=1", "-u", server.url, "--request-rate", "20", "--duration", "60"]
        code, _, err = servemark(*line, "--out", str(tmp_path))
        assert (code, server.requests()) == (BAD_INPUT, [])
    assert "does not serve 'ranking_onnxruntime'" in err
