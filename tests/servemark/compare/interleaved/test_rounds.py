"""Rounds that are made again, because a run drifted or the load generator was late."""

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from servemark.compare.interleaved.hosting import Hosted, Participant
from servemark.compare.interleaved.rounds import LoadTurns, Rounds
from tests.support.rounds import turn

Failures = dict[tuple[int, str], tuple[str, ...]]


class Made(LoadTurns):
    """Stands for runs: each has what it fails by its round and engine, at the first time alone or always."""

    def __init__(self, failures: Failures, *, always: bool = False) -> None:
        super().__init__([cast(Participant, SimpleNamespace(label=label)) for label in ("a", "b")], Path())
        self.failures, self.always, self.interrupts = failures, always, False

    def turn(self, participant: Participant, hosted: Hosted, number: int) -> str:
        assert hosted is not None
        self.made += 1
        key = number, participant.label
        if self.interrupts and self.made > 10:
            raise KeyboardInterrupt
        failed = self.failures.get(key, ()) if self.always else self.failures.pop(key, ())
        self.turns.append(turn(number, participant.label, 10.0 + self.made, failed=failed))
        return "said"


def measured(turns: Made, count: int = 5) -> list[tuple[int, str, bool]]:
    """Make the rounds and repeat them; each run that is left, with its verdict."""
    server: Any = lambda _: contextlib.nullcontext("a server")  # noqa: E731 - a context, and no more
    rounds = Rounds(Path(), server, lambda: None, warm_each_turn=False)
    rounds.run(count, turns)
    turns.repeat(rounds)
    return [(each.round, each.label, each.result["verdict"]["valid"]) for each in turns.turns]


def test_a_round_that_drifted_is_made_again_with_all_engines(capsys: pytest.CaptureFixture[str]) -> None:
    turns = Made({(2, "b"): ("steady_state",)})
    assert {valid for _, _, valid in measured(turns)} == {True}
    assert [each.round for each in turns.turns] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert turns.repeated == [{"round": 2, "label": "b", "failed": ["steady_state"]}]
    assert "round 2 again, because b was INVALID (steady_state)" in capsys.readouterr().err
    assert turns.made == 12


def test_a_round_that_drifts_again_stays_invalid() -> None:
    turns = Made({(2, "b"): ("steady_state",)}, always=True)
    assert [each for each in measured(turns) if not each[2]] == [(2, "b", False)]
    assert turns.made == 12


@pytest.mark.parametrize(
    "failures",
    [
        {(2, "b"): ("error_rate",)},
        {(2, "b"): ("steady_state", "output_agreement")},
        {(number, "a"): ("steady_state",) for number in (1, 2, 3)},
    ],
    ids=["the server's errors", "wrong answers", "half of the rounds or more"],
)
def test_other_rounds_are_not_made_again(failures: Failures) -> None:
    turns = Made(failures)
    measured(turns)
    assert turns.made == 10
    assert turns.repeated == []


def test_an_interrupted_repetition_leaves_the_rounds_as_they_were() -> None:
    turns = Made({(2, "b"): ("steady_state",)})
    turns.interrupts = True
    with pytest.raises(KeyboardInterrupt):
        measured(turns)
    assert len(turns.turns) == 10
    assert [each.round for each in turns.turns if not each.result["verdict"]["valid"]] == [2]
