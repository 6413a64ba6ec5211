"""Distributed load: the shares together are one load, recorders merge exactly, and a lost worker is told."""

import json
import random
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import psutil
import pytest

from loadgen.agreement import Checked, check
from loadgen.channel import Outcome, Payload
from loadgen.coordination.clock_offset import ClockOffset, RoundTrip
from loadgen.coordination.member import Member
from loadgen.coordination.recorder_state import merged, state_of
from loadgen.recorder import Interval, Recorder
from loadgen.share import Share
from servemark.agreement import Agreement
from servemark.artifacts import Golden
from servemark.models import Tensor, get
from servemark.paths import CHECKOUT
from tests.distributed_run import contents_of, golden_server, master, workers
from tests.load_config import config
from tests.locust_run import DEADLINE_S, accounted, command, golden_entry, server_of, started, the_result, until
from tests.network import Host, Network, network
from tests.test_web_ui import Web, free_port

S, MS = 1_000_000_000, 1_000_000
TINY = ["--model", "ranking_tiny"]
LOADS = {
    "poisson": ["--request-rate", "300"],
    "constant": ["--request-rate", "300", "--request-distribution", "constant"],
    "gamma": ["--request-rate", "300", "--request-distribution", "gamma", "--gamma-cv", "3"],
    "stages": ["--stages", "1:100,0.5:0,1:400"],
    "trace": ["--trace", "{trace}"],
}


@pytest.mark.parametrize("of", [1, 2, 3, 7, 400])
@pytest.mark.parametrize("load", LOADS)
def test_the_shares_together_are_the_whole_schedule(load: str, of: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{0.007 * number:.3f},{number % 5}\n" for number in range(200)))
    flags = [flag.format(trace=trace) for flag in LOADS[load]]
    whole = config("ranking_tiny", *flags, "--duration", "2", "--warmup", "0.5").scenario.schedule(5)
    assert whole is not None
    assert whole.size > 100
    sent: list[tuple[int, int]] = []
    for index in range(of):
        share = Share(index, of)
        arrivals = share.arrivals(whole).tolist()
        assert len(arrivals) == share.count(whole.size)
        sent += zip(arrivals, share.requests(count()), strict=False)
    # each arrival once, with the request that one process would have sent then
    assert sorted(sent) == sorted(zip(whole.tolist(), count(), strict=False))


@pytest.mark.parametrize("of", range(1, 9))
def test_connections_are_split_evenly(of: int) -> None:
    for whole in (0, 1, 5, 8, 1024):
        parts = [Share(index, of).count(whole) for index in range(of)]
        assert sum(parts) == whole
        assert max(parts) - min(parts) <= 1


def outcomes(number: int, rng: random.Random) -> list[Outcome]:
    """Outcomes in and around an interval of 0 to 5 s, some failed, some whose answer comes after its end."""
    made = []
    for _ in range(number):
        scheduled = rng.randrange(-S, 6 * S)
        sent = scheduled + rng.choice([0, 0, rng.randrange(3 * MS)])
        done = sent + round(rng.lognormvariate(17, 1))
        error = rng.choice([None] * 9 + ["timeout", "http_503"])
        message = f"said {rng.randrange(9)}" if error else ""
        made.append(Outcome(Payload(b""), scheduled, sent, done, error, message, None))
    return made


def recorded(given: list[Outcome], interval: Interval, start: int = 0) -> Recorder:
    """A recorder on a clock that is `start` ahead of the outcomes'."""
    recorder = Recorder(interval, waited=lambda scheduled: (scheduled - start) % 3 == 0)
    for each in given:
        at = {name: getattr(each, name) + start for name in ("scheduled", "sent", "done")}
        recorder.outcome(each._replace(**at))
    recorder.flush()
    return recorder


def over_the_wire(recorder: Recorder) -> dict[str, Any]:
    """Its state as the master receives it."""
    state: dict[str, Any] = msgpack.loads(msgpack.dumps(state_of(recorder)), strict_map_key=False)
    return state


@pytest.mark.parametrize("edges", [(), (0, S, 2 * S, 2 * S + S // 2, 5 * S)])
def test_merged_recorders_equal_one_that_recorded_everything(edges: tuple[int, ...]) -> None:
    rng = random.Random(7)  # noqa: S311 - no secret
    windows = len(edges) - 1 if edges else 5
    given = outcomes(3000, rng)
    one = recorded(given, Interval(0, 5 * S, windows, edges))
    # each worker has a clock of its own
    clocks = [0, 17 * S, 123_456_789]
    states = [
        over_the_wire(
            recorded(given[index::3], Interval(at, at + 5 * S, windows, tuple(edge + at for edge in edges)), start=at)
        )
        for index, at in enumerate(clocks)
    ]
    all_of_them = merged(Interval(0, 5 * S, windows, edges), states)
    for name in ("latency", "service_time", "schedule_delay", "waited_delay"):
        theirs, ours = getattr(one, name), getattr(all_of_them, name)
        assert np.array_equal(theirs.counts, ours.counts), name
        assert (theirs.count, theirs.min_ns, theirs.max_ns) == (ours.count, ours.min_ns, ours.max_ns)
        assert (ours.mean_ms(), ours.stdev_ms()) == pytest.approx((theirs.mean_ms(), theirs.stdev_ms()), rel=1e-12)
    for name in ("scheduled", "completed", "outside", "carried_in", "late", "errors"):
        assert getattr(one, name) == getattr(all_of_them, name), name
    assert all_of_them.waited_delay.count > 100
    assert {kind: len(said) for kind, said in all_of_them.messages.items()} == {"timeout": 5, "http_503": 5}
    for theirs, ours in zip(one.windows, all_of_them.windows, strict=True):
        assert np.array_equal(theirs.latency.counts, ours.latency.counts)
        assert (theirs.scheduled, theirs.completed, theirs.errors) == (ours.scheduled, ours.completed, ours.errors)


def test_a_worker_that_was_lost_before_the_interval_was_prolonged_is_merged_too() -> None:
    """Its windows are half as long as the others' by then."""
    early, late = (Recorder(Interval(0, 10 * S, 10), least=float("inf")) for _ in range(2))
    for recorder, until_s in ((early, 10), (late, 14)):
        for second in range(until_s):
            recorder.outcome(Outcome(Payload(b""), second * S, second * S, second * S + MS, None, "", None))
            recorder.tick(second * S + S // 2)
    late.end_at(14 * S)
    assert late.over(14 * S)
    whole = merged(Interval(0, 10 * S, 10), [over_the_wire(early), over_the_wire(late)])
    assert (whole.interval.end, whole.interval.windows) == (14 * S, 7)
    assert [window.scheduled for window in whole.windows] == [4, 4, 4, 4, 4, 2, 2]


class Golds:
    """An answer to golden rows."""

    error, size = None, 0

    def __init__(self, **arrays: Any) -> None:
        self._arrays = arrays

    def message(self) -> str:
        return ""

    def arrays(self, _outputs: Any) -> Any:
        return self._arrays


@pytest.mark.parametrize("spoilt", [None, 3.0, float("nan")])
def test_merged_comparisons_equal_one_of_everything(spoilt: float | None) -> None:
    rng = np.random.default_rng(1)
    outputs = [Tensor("scores", "FP64", (4,)), Tensor("ids", "INT64", (2,))]
    golden = Golden({}, {"scores": rng.random((6, 4)), "ids": rng.integers(0, 9, (6, 2))})
    sampled: list[Any] = []
    for row in range(6):
        scores, ids = golden.outputs["scores"][[row]].astype("f4") + 1e-5 * row, golden.outputs["ids"][[row]].copy()
        if row == 4:
            ids[0, 1] += 1
            scores[0, 0] += 0 if spoilt is None else spoilt
        sampled.append(((row,), Golds(scores=scores, ids=ids)))
    limits = Agreement(min_match=0.9)
    one = check(sampled, golden, outputs, limits)
    parts = [check(part, golden, outputs, limits) for part in (sampled[:1], sampled[1:4], sampled[4:], [])]
    together = Checked.joined(parts, outputs, limits)
    assert (together.answers, together.rows) == (6, 6)
    for name, theirs in one.found.items():
        ours = together.found[name]
        assert ours.agrees == theirs.agrees
        assert ours.max_abs == theirs.max_abs
        assert (ours.match_share, ours.top1_share) == pytest.approx((theirs.match_share, theirs.top1_share))
    # one of two ids of one of six rows: 11 of 12 are equal
    assert together.found["ids"].agrees
    assert together.found["scores"].agrees is (spoilt is None)


def test_the_clock_offset_is_true_to_within_its_uncertainty_whichever_way_was_slow() -> None:
    rng, offset = random.Random(3), -987_654_321_012  # noqa: S311 - no secret
    for _ in range(200):
        trips, now = [], rng.randrange(10**12)
        for _ in range(10):
            there, back = rng.randrange(20 * MS), rng.randrange(20 * MS)
            trips.append(RoundTrip(now, now + there + offset, now + there + back))
            now += there + back + 1000
        found = ClockOffset.estimate(trips)
        assert abs(found.offset_ns - offset) <= found.uncertainty_ns
        assert found.uncertainty_ns <= min(trip.length for trip in trips) // 2 + 1
        assert found.theirs(now) == now + found.offset_ns


def test_a_member_is_blamed_for_silence_and_absence_and_heard_again() -> None:
    member = Member("a_host_1", 0)
    member.hear({"kind": "ready", "host": "a", "pid": 7, "fingerprint": {}}, 1 * S)
    member.watch(None, 5)
    assert member.trouble is None
    member.watch("it was lost", 6)
    assert not member.gone, "its last report may be on the way"
    assert member.trouble is None
    member.watch("it was lost", 9)
    assert member.gone
    assert str(member.trouble) == "it was lost"
    member.hear({"kind": "state", "final": False, "recorder": {}}, 10 * S)
    member.watch(None, 10)
    assert not member.gone
    assert str(member.trouble) == "it was lost", "what happened stays told"
    silent = Member("b", 1)
    silent.hear({"kind": "state", "final": False, "recorder": {}}, 1 * S)
    silent.watch(None, 12)
    assert "reported nothing for 11 s" in (silent.trouble or "")


def constraint(result: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [each for each in result["verdict"]["constraints"] if each["name"] == name]
    return dict(found)


def test_three_workers_in_separate_networks_send_one_load(tmp_path: Path) -> None:
    load = ["--request-rate", "250", "--duration", "1.5", "--warmup", "0.3", "--seed", "3"]
    out = tmp_path / "out"
    with network(3) as hosts, golden_server(hosts, tmp_path / "server", delay_s=0.002) as server:
        port = free_port()
        flags = [*TINY, *load, "--url", server.url, "--out", str(out), "--model-repository", str(tmp_path)]
        with (
            started(master(hosts, port, *flags), tmp_path / "log") as process,
            workers(hosts, port, tmp_path, "--model-repository", str(tmp_path)) as crew,
        ):
            assert process.wait(DEADLINE_S) in {0, 2}, (tmp_path / "log").read_text()
            pids = {worker.pid for worker in crew}
        received = server.contents()
    resolved = config("ranking_tiny", *load)
    schedule = resolved.scenario.schedule(3)
    assert schedule is not None
    result = the_result(out)
    # what one process would have sent: as many requests, with the same contents, each once
    assert received == contents_of(resolved, len(schedule))
    assert accounted(result) == len(schedule)
    assert result["metrics"]["client"]["workers"] == len(result["workers"]) == 3
    assert {worker["pid"] for worker in result["workers"]} == pids
    assert [worker["index"] for worker in result["workers"]] == [0, 1, 2]
    inside = ((schedule >= 0.3 * S) & (schedule < 1.8 * S)).sum()
    assert sum(worker["requests"] for worker in result["workers"]) == inside == result["metrics"]["latency_ms"]["count"]
    assert not result["partial"]
    assert constraint(result, "clocks")["value"] > 0
    if hosts.reason:
        pytest.skip(f"all of it held, but in one network: {hosts.reason}")


def test_a_killed_worker_makes_the_run_invalid_and_the_others_go_on(tmp_path: Path) -> None:
    load = ["--request-rate", "150", "--duration", "5", "--warmup", "0.1", "--request-distribution", "constant"]
    out, hosts = tmp_path / "out", Network([Host()] * 3)
    with golden_server(hosts, tmp_path / "server", delay_s=0.002) as server:
        port = free_port()
        flags = [*TINY, *load, "--url", server.url, "--out", str(out), "--model-repository", str(tmp_path)]
        with (
            started(master(hosts, port, *flags), tmp_path / "log") as process,
            workers(hosts, port, tmp_path, "--model-repository", str(tmp_path)) as crew,
        ):
            until(lambda: len(server.requests()) > 350, "load")
            crew[1].kill()
            assert process.wait(DEADLINE_S) == 2
            killed = crew[1].pid
        received = server.contents()
    result = the_result(out)
    found = constraint(result, "workers")
    assert (found["ok"], found["value"], found["limit"]) == (False, 2, 3) or "sent late" in found["remedy"]
    assert f"pid {killed}): it was lost: no heartbeat came from it" in found["remedy"]
    [lost] = [worker for worker in result["workers"] if worker["trouble"]]
    assert lost["pid"] == killed
    # the shares of the others were sent to their end; of the lost one what it had sent is there, and what it had told
    whole = round(150 * 5.1)
    shares = {index: Share(index, 3).count(whole) for index in range(3)}
    others = sum(shares.values()) - shares[lost["index"]]
    assert others <= accounted(result) <= received.total() < whole
    assert 0 < lost["requests"] < shares[lost["index"]]
    assert sum(worker["requests"] for worker in result["workers"]) == result["metrics"]["latency_ms"]["count"]
    assert not result["partial"]


def test_a_worker_that_cannot_prepare_ends_the_run_with_its_words(tmp_path: Path) -> None:
    out, hosts = tmp_path / "out", Network([Host()] * 1)
    golden_entry(tmp_path / "repository")
    with golden_server(hosts, tmp_path / "server") as server:
        port = free_port()
        repository = str(tmp_path / "repository")
        flags = [*TINY, "--url", server.url, "--out", str(out), "--model-repository", repository, "--duration", "60"]
        with (
            started(master(hosts, port, *flags), tmp_path / "log") as process,
            workers(hosts, port, tmp_path, "--model-repository", str(tmp_path / "empty")) as [worker],
        ):
            assert process.wait(DEADLINE_S) == 3
            assert worker.wait(DEADLINE_S) == 0, "the master sends its workers home"
        received = server.requests()
    log = (tmp_path / "log").read_text()
    assert "golden.npz is not there, which the master has" in log
    assert "worker 0 (" in log
    assert "--model-repository DIR" in log
    assert received == []


def test_a_closed_loop_is_split_and_a_second_run_from_the_web_ui_works(tmp_path: Path) -> None:
    port, web_port = free_port(), free_port()
    out, log, hosts = tmp_path / "out", tmp_path / "log", Network([Host()] * 2)
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        flags = ["--web-port", str(web_port), "--url", server.url, "--out", str(out)]
        flags += ["--model-repository", str(tmp_path)]
        line = [part for part in master(hosts, port, *flags) if part not in {"--headless", "--only-summary"}]
        with (
            started(line, log),
            workers(hosts, port, tmp_path, "--model-repository", str(tmp_path)),
        ):
            web = Web(f"http://127.0.0.1:{web_port}", server, out, log)
            until(web.answers, "the web UI")
            until(lambda: log.read_text().count("reported as ready") >= 2, "the workers")
            web.swarm()
            [closed] = web.finished(1)
            web.swarm(request_rate="100", request_distribution="constant", duration="1")
            _, opened = web.finished(2)
        received = len(server.requests())
    assert sorted(worker["max_in_flight"] for worker in closed["workers"]) == [1, 2], "of 3 connections"
    assert (closed["scenario"]["concurrency"], closed["metrics"]["client"]["max_in_flight"]) == (3, 3)
    assert opened["metrics"]["latency_ms"]["count"] == 100
    assert Counter(worker["requests"] for worker in opened["workers"]) == {50: 2}
    assert accounted(closed) + accounted(opened) == received
    assert not closed["partial"]
    assert not opened["partial"]


def test_the_command_starts_its_own_workers(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        line = [sys.executable, "-m", "servemark", "run", "ranking_tiny", "--workers", "2", "--json"]
        line += ["--url", server.url]
        line += ["--request-rate", "100", "--request-distribution", "constant", "--duration", "0.6", "--warmup", "0.1"]
        line += ["--out", str(tmp_path), "--model-repository", str(tmp_path)]
        done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        received = len(server.requests())
    assert done.returncode == 2, done.stderr  # one window does not show a steady state
    result = json.loads(done.stdout)
    assert result["metrics"]["client"]["workers"] == 2
    assert accounted(result) == received == 70


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_workers_that_the_master_forked_end_with_it_whatever_ends_it(tmp_path: Path) -> None:
    port = str(free_port())
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        flags = [*TINY, "--processes", "2", "--master-port", port, "--master-bind-port", port, "--url", server.url]
        flags += ["--out", str(tmp_path), "--model-repository", str(tmp_path), "--duration", "60", "--users", "2"]
        with started(command("ranking", *flags), tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 20, "load")
            forked = psutil.Process(process.pid).children()
            assert len(forked) == 2
            process.kill()
            until(lambda: not any(map(alive, forked)), "their end")
