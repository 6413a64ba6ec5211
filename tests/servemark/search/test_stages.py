"""The search for a configuration, against servers whose best one is known by formula."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from servemark.campaign import Campaign
from servemark.errors import OptionError, ServerError
from servemark.results.directory import JOURNAL
from servemark.search.posterior import TOLERANCE
from servemark.search.refinement import MIN_ROUNDS
from servemark.search.stages import tune
from servemark.search.trial import Candidate, Space, Trial, Tuning
from servemark.search.tuning import in_turns
from tests.support.tuning_server import (
    CONFIG,
    OBJECTIVE,
    PLENTY_S,
    PRESENT,
    RUN_S,
    SCREEN_S,
    SPACE,
    Capacity,
    Server,
    key,
)

BEST = Candidate(instances=2, threads=2, max_batch=16, queue_delay_us=0)


def two_instances_are_best(candidate: Candidate) -> float:
    """Two instances of two threads do half as much again, small batches a tenth less each time; delays cost nothing."""
    layout = 1.5 if (candidate.instances, candidate.threads) == (2, 2) else 1.0
    return float(1000.0 * layout * 0.9 ** math.log2(16 / candidate.max_batch))


def two_instances_meet_it(candidate: Candidate) -> float:
    return 1000.0 if candidate.instances == 2 else 150.0


def flat(_: Candidate) -> float:
    return 1000.0


def met(capacity: float) -> float:
    """The highest rate of an M/M/1 server within the objective."""
    return capacity - math.log(100) / (OBJECTIVE.limit_ms / 1e3)


def tuned(server: Server, budget_s: float = PLENTY_S) -> Tuning:
    """Search, and check the properties of every outcome."""
    tuning = tune(server.trial, SPACE, OBJECTIVE, budget_s)
    assert tuning.reason
    assert tuning.spent_s <= budget_s
    assert tuning.standing(PRESENT)
    assert (tuning.winner is not None) == (tuning.outcome == "better")
    assert (tuning.lacked is not None) == (tuning.outcome == "undecided")
    assert tuning.winner != PRESENT
    return tuning


# The space


def test_the_space_is_that_of_the_machine() -> None:
    assert Candidate(instances=1, threads=0, max_batch=16, queue_delay_us=0) == PRESENT
    assert set(SPACE.layouts) == {(1, 4), (1, 2), (2, 2), (2, 1), (4, 1)}
    fixed = replace(PRESENT, threads=4).settings(PRESENT).apply(CONFIG)
    assert (1, 4) not in Space.of(fixed, cores=4, batch_size=1, largest=16).layouts
    assert all(instances * threads <= 4 for instances, threads in SPACE.layouts)
    assert SPACE.batches == (16, 8, 4, 2, 1)
    crowded = Space.of(CONFIG, cores=4, batch_size=1, largest=16, oversubscribe=True)
    assert max(instances * threads for instances, threads in crowded.layouts) == 8
    assert Space.of(CONFIG, cores=1, batch_size=1, largest=16).layouts == ((1, 1),)


def test_batch_limits_hold_the_requests_and_keep_to_the_workload() -> None:
    assert Space.of(CONFIG, cores=2, batch_size=3, largest=12).batches == (12, 8, 4)


def test_a_model_without_batching_has_no_batches_to_tune() -> None:
    space = Space.of("max_batch_size: 0", cores=2, batch_size=1, largest=8)
    assert space.present == Candidate(1, 0, 0, None)
    assert (space.batches, space.delays_us) == ((), ())


def test_on_a_gpu_only_the_instances_are_laid_out_anew() -> None:
    config = CONFIG.replace("KIND_CPU", "KIND_GPU gpus: [ 0 ]")
    assert Space.of(config, cores=64, batch_size=1, largest=16).layouts == ((2, 0), (4, 0))


def test_a_candidate_changes_what_differs_and_nothing_else() -> None:
    candidate = Candidate(instances=2, threads=1, max_batch=8, queue_delay_us=500)
    text = candidate.settings(PRESENT).apply(CONFIG)
    assert Candidate.of_config(text) == candidate
    assert "preferred_batch_size: 4" in text
    assert "preferred_batch_size: 16" not in text  # Triton would refuse it above the limit
    assert not PRESENT.settings(PRESENT)
    assert (candidate.changes(PRESENT), PRESENT.changes(PRESENT)) == (4, 0)


# The search


def test_the_best_configuration_is_found() -> None:
    server = Server(two_instances_are_best)
    tuning = tuned(server)
    assert tuning.outcome == "better"
    # Neither batches nor delays that change nothing are changed.
    assert tuning.winner == BEST
    assert tuning.ratio is not None
    assert tuning.ratio.low is not None
    assert tuning.ratio.high is not None
    assert tuning.ratio.low > 1
    assert tuning.ratio.low <= met(1500) / met(1000) <= tuning.ratio.high
    assert tuning.standing(PRESENT).rate == pytest.approx(met(1000), rel=TOLERANCE)
    assert tuning.not_tried == ()
    # Rounds are interleaved, A B, B A, A B, of two runs for each side, and each side is measured in each.
    rounds = itertools.groupby((t for t in server.trials if t.stage == "round"), lambda t: (t.number // 2, t.candidate))
    order = [side for (_, side), _ in rounds]
    assert order == [[PRESENT, tuning.winner][n % 4 in {1, 2}] for n in range(len(order))]
    counts = [len(tuning.standing(c).rounds) for c in (PRESENT, BEST)]
    assert counts[0] == counts[1] >= MIN_ROUNDS


ENDS: dict[str, tuple[Capacity, dict[str, object], tuple[str, str | None, str]]] = {
    "on a plateau the present configuration stays": (flat, {}, ("same", None, "")),
    "no configuration meets the objective": (lambda _: 150.0, {}, ("missed", None, "")),
    "a rate that the generator limits is nobody's highest": (
        two_instances_are_best,
        {"generator_above": 800.0},
        ("undecided", "generator", "at higher rates the generator was late, so the server's own limit is not known"),
    ),
    "other work has taken the machine": (
        two_instances_are_best,
        {"disturbed": lambda _stage, _candidate: True},
        ("undecided", "machine", "other work took the machine (other_load"),
    ),
    "the only candidate that the server is fast enough for is disturbed": (
        two_instances_meet_it,
        {"disturbed": lambda _, candidate: candidate.instances == 2},
        ("undecided", "machine", ""),
    ),
    "other work disturbs the rounds": (
        two_instances_are_best,
        {"disturbed": lambda stage, _: stage == "round"},
        ("undecided", "machine", "in round 1 "),
    ),
}


@pytest.mark.parametrize(("capacity", "changes", "end"), ENDS.values(), ids=ENDS)
def test_ends_without_a_winner(
    capacity: Capacity, changes: dict[str, object], end: tuple[str, str | None, str]
) -> None:
    server = Server(capacity)
    vars(server).update(changes)
    tuning = tuned(server)
    assert (tuning.outcome, tuning.lacked) == end[:2]
    assert end[2] in tuning.reason


@pytest.mark.parametrize("seed", range(12))
def test_noise_makes_no_winner(seed: int) -> None:
    tuning = tuned(Server(flat, noise=0.05, seed=seed), 3000.0)
    assert tuning.outcome != "better"


@pytest.mark.parametrize("seed", range(6))
def test_a_real_difference_is_found_in_noise(seed: int) -> None:
    server = Server(lambda c: two_instances_are_best(c) * (4 / 3 if c.instances == 2 else 1), noise=0.02, seed=seed)
    tuning = tuned(server)
    assert tuning.outcome == "better"
    assert tuning.winner
    assert (tuning.winner.instances, tuning.winner.threads) == (2, 2)


def test_of_equally_good_ones_the_one_that_changes_least_wins() -> None:
    """Smaller batches screen better but meet the same rates."""

    class Deceived(Server):
        def measured(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
            trial = super().measured(stage, candidate, load, number)
            if stage == "screen" and candidate.max_batch == 4 and candidate.instances == 2:
                return Trial(stage, candidate, load, number, SCREEN_S, throughput=2 * (trial.throughput or 0))
            return trial

    tuning = tuned(Deceived(lambda c: 1500.0 if (c.instances, c.threads) == (2, 2) else 1000.0))
    searched = {s.candidate for s in tuning.standings if s.found}
    assert any(candidate.max_batch == 4 for candidate in searched)
    assert tuning.outcome == "better"
    assert tuning.winner is not None
    assert tuning.winner.changes(PRESENT) <= BEST.changes(PRESENT) + 1
    alike = [s for s in tuning.standings if s.rate and s.candidate in searched and s.candidate != PRESENT]
    assert tuning.winner.changes(PRESENT) == min(s.candidate.changes(PRESENT) for s in alike)


def test_candidates_that_fail_are_listed_and_do_not_end_the_search() -> None:
    server = Server(two_instances_are_best)
    server.failing = {BEST: "Triton cannot load it: out of memory"}
    tuning = tuned(server)
    assert tuning.standing(BEST).failure == "Triton cannot load it: out of memory"
    assert tuning.winner != BEST
    assert sum(t.candidate == BEST for t in server.trials) == 1


def test_a_candidate_that_fails_under_load_has_no_rate() -> None:
    class Crashing(Server):
        def measured(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
            if stage == "search" and candidate == BEST:
                return Trial(stage, candidate, load, number, RUN_S, failure="the server ended with exit status 139")
            return super().measured(stage, candidate, load, number)

    tuning = tuned(Crashing(two_instances_are_best))
    assert tuning.winner != BEST
    assert tuning.standing(BEST).failure == "the server ended with exit status 139"


def test_a_present_configuration_that_cannot_be_used_is_an_error() -> None:
    server = Server(flat)
    server.failing = {PRESENT: "no such engine"}
    with pytest.raises(ServerError, match="the present configuration cannot be used: no such engine"):
        tuned(server)


def test_a_server_too_slow_for_the_percentile_is_said_at_once() -> None:
    server = Server(lambda _: 20.0)
    with pytest.raises(OptionError, match=r"p99 needs 1,000 requests in a run, and the server answers about 20/s"):
        tuned(server)
    assert len(server.trials) == 2


def test_an_objective_that_only_another_configuration_meets() -> None:
    server = Server(lambda c: 1000.0 if (c.instances, c.threads) == (2, 2) else 150.0)
    tuning = tuned(server)
    assert (tuning.outcome, tuning.winner, tuning.ratio) == ("better", BEST, None)


def test_a_winner_that_the_generator_limits_does_at_least_so_much() -> None:
    server = Server(lambda c: 5000.0 if (c.instances, c.threads) == (2, 2) else 1000.0)
    server.generator_above = 2000.0
    tuning = tuned(server)
    assert tuning.outcome == "better"
    assert "or more: the generator, not the server, limited it" in tuning.reason
    assert max(tuning.standing(BEST).rounds) <= 2000.0


# Other work


@pytest.mark.parametrize(("stop_when_busy", "most"), [(False, 15), (True, 3)])
def test_on_a_machine_that_other_work_has_taken_it_ends_soon(stop_when_busy: bool, most: int) -> None:
    server = Server(two_instances_are_best)
    server.disturbed = lambda _stage, _candidate: True
    tuning = tune(server.trial, SPACE, OBJECTIVE, PLENTY_S, stop_when_busy=stop_when_busy)
    assert (tuning.outcome, tuning.lacked) == ("undecided", "machine")
    assert 3 <= sum(trial.stage == "search" for trial in server.trials) <= most


def test_what_other_work_has_kept_from_ending_lacks_the_machine_and_not_the_budget() -> None:
    class Busy(Server):
        def measured(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
            """Make a run as without other work, which its verdict names."""
            trial = super().measured(stage, candidate, load, number)
            return replace(trial, point=trial.point and replace(trial.point, failed=frozenset({"other_load"})))

    assert tuned(Server(two_instances_are_best), 160.0).lacked == "time"
    tuning = tuned(Busy(two_instances_are_best), 160.0)
    assert (tuning.outcome, tuning.lacked) == ("undecided", "machine")
    assert "other work took the machine" in tuning.reason


def test_a_tuning_that_is_cut_short_has_an_answer() -> None:
    server = Server(two_instances_are_best)
    server.stop_at = 8
    known: list[Tuning] = []
    with pytest.raises(KeyboardInterrupt):
        tune(server.trial, SPACE, OBJECTIVE, PLENTY_S, on_cut=known.append)
    [tuning] = known
    assert (tuning.outcome, tuning.lacked) == ("undecided", None)
    assert tuning.reason.startswith("cut short; ")


# The budget


@pytest.mark.parametrize("budget_s", [150.0, 300.0])
def test_a_finalist_that_there_was_no_time_for_has_not_missed_the_objective(budget_s: float) -> None:
    """The present configuration is known to meet no rate; the other one was not searched, or with a few runs."""
    tuning = tuned(Server(two_instances_meet_it), budget_s)
    assert (tuning.outcome, tuning.lacked) == ("undecided", "time")
    assert "2 x 2 threads" in tuning.reason


@pytest.mark.parametrize("budget_s", [20.0, 60.0, 120.0, 240.0, 400.0, 800.0])
def test_the_budget_is_kept_to_and_what_was_not_tried_is_said(budget_s: float) -> None:
    server = Server(two_instances_are_best)
    tuning = tuned(server, budget_s)
    assert tuning.spent_s == sum(t.seconds for t in server.trials)
    if budget_s <= 120:
        assert tuning.outcome == "undecided"
        assert "too little of the budget was left" in tuning.reason
    if budget_s <= 240:
        assert tuning.not_tried


# The journal


def finished(folder: Path, server: Server, budget_s: float = 800.0, *, resume: bool = False) -> Tuning:
    with Campaign(folder, {"kind": "test"}, resume=resume) as campaign:
        return tune(in_turns(campaign, server.trial), SPACE, OBJECTIVE, budget_s)


def trials(folder: Path) -> list[Trial]:
    """The trials that a journal holds."""
    _, *lines = (folder / JOURNAL).read_text().splitlines()
    return [msgspec.convert(json.loads(line)["outcome"], Trial) for line in lines]


@pytest.mark.parametrize("stop_at", [1, 7, 15, 25, 32])
def test_a_resumed_search_ends_like_one_that_was_never_stopped(tmp_path: Path, stop_at: int) -> None:
    (tmp_path / "whole").mkdir()
    server = Server(two_instances_are_best)
    whole = finished(tmp_path / "whole", server)
    stopped = Server(two_instances_are_best)
    stopped.stop_at = stop_at
    with pytest.raises(KeyboardInterrupt):
        finished(tmp_path, stopped)
    assert trials(tmp_path) == server.trials[:stop_at]
    rest = Server(two_instances_are_best)
    assert finished(tmp_path, rest, resume=True) == whole
    assert rest.trials == server.trials[stop_at:]
    assert trials(tmp_path) == trials(tmp_path / "whole") == server.trials


def test_a_larger_budget_goes_on_where_a_smaller_one_ended(tmp_path: Path) -> None:
    first = Server(two_instances_are_best)
    assert finished(tmp_path, first, 150.0).outcome == "undecided"
    second = Server(two_instances_are_best)
    tuning = finished(tmp_path, second, PLENTY_S, resume=True)
    assert tuning.outcome == "better"
    assert not {*map(key, first.trials)} & {*map(key, second.trials)}
