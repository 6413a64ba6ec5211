"""However many kinds and messages a server makes up, few are kept."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadgen.driver.failures import MAX_KINDS, MAX_MESSAGES, MAX_WORDS, OTHER, Failures
from loadgen.sut.channel import Outcome
from tests.support.load_config import config


def test_kinds_with_a_servers_number_are_few_and_others_keep_their_name() -> None:
    failures = Failures()
    kinds = [failures.kind(f"http_{number}") for number in range(100, 1000)]
    assert kinds[:MAX_KINDS] == [f"http_{number}" for number in range(100, 100 + MAX_KINDS)]
    assert set(kinds[MAX_KINDS:]) == {OTHER}
    assert failures.kind("http_100") == "http_100"
    # What the verdict looks for has its name however late it comes.
    assert [failures.kind(kind) for kind in ("timeout", "backend_died", "generator_error")] == [
        "timeout", "backend_died", "generator_error",
    ]  # fmt: skip


def test_only_the_first_messages_of_a_kind_are_told() -> None:
    failures = Failures()
    told = [failures.words("http_503", f"request {number}") for number in range(20)]
    assert told == [f"request {number}" for number in range(MAX_MESSAGES)] + [""] * (20 - MAX_MESSAGES)
    assert failures.words("http_503", "request 0") == "request 0"
    assert failures.words("http_500", "request 7") == "request 7"


@pytest.mark.parametrize("answered", [True, False], ids=["answer", "connection"])
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("no \x1b[2J \ud800", r"no \u001b[2J \ud800"),
        ("no token-1234 here", "no <cookie> here"),
        ("x" * 20_000_000, "x" * MAX_WORDS),
        ("x" * (MAX_WORDS - 3) + "token-1234", "x" * (MAX_WORDS - 3) + "<co"),
    ],
    ids=["control characters", "secret", "length", "secret at the end"],
)
def test_words_of_a_failure(said: str, kept: str, answered: bool, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Cookie: a=token-1234; b=token-5678\n")
    access = config("ranking_tiny", "--headers", str(tmp_path / "headers")).access
    response = SimpleNamespace(message=lambda: said) if answered else None
    outcome = Outcome(cast(Any, None), 0, 0, 0, "closed", "" if answered else said, cast(Any, response))
    kept_outcome, words = Failures(access).named(outcome)
    assert (kept_outcome.message, words) == (kept, kept)
