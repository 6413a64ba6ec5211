"""What a server says of a failure is kept in short; and other greenlets, and their sockets, have their turn."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadgen.measurement.failures import MAX_KINDS, MAX_MESSAGES
from loadgen.measurement.sender import MAX_WORDS, Sender
from loadgen.sut.channel import Outcome
from tests.support.load_config import config

CONVERSATION = """
import gevent.monkey; gevent.monkey.patch_all()
import os, gevent
from gevent.os import nb_read
from loadgen.measurement.sender import give_way

STEPS = 10
ours, theirs = os.pipe()
os.set_blocking(ours, False)
heard = []
def listen():
    for _ in range(STEPS):
        heard.append(nb_read(ours, 1))     # waits for the socket, as reading a server's counters does

listener = gevent.spawn(listen)
turns = 0
while not listener.dead and turns < 1000:
    if turns % 2 == 0:
        os.write(theirs, b"x")             # what it waits for comes in every second turn
    give_way()
    turns += 1
print(len(heard), turns)
"""


def test_a_greenlet_that_waits_for_a_socket_goes_on_in_the_turn_after_it_was_written_to() -> None:
    done = subprocess.run([sys.executable, "-c", CONVERSATION], capture_output=True, text=True, timeout=60, check=True)
    steps, turns = map(int, done.stdout.split())
    assert steps == 10
    assert turns <= 2 * steps + 2


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
    seen: list[Any] = []
    flags = config("ranking_tiny", "--headers", str(tmp_path / "headers"))
    sender = Sender(flags, cast(Any, None), on_request=lambda *outcome: seen.append(outcome))
    sender.recorder = cast(Any, SimpleNamespace(outcome=seen.append))
    response = SimpleNamespace(message=lambda: said) if answered else None
    sender._outcome(Outcome(cast(Any, None), 0, 0, 0, "closed", "" if answered else said, cast(Any, response)))
    recorded, (told, words) = seen
    assert (recorded.message, told.message, words) == (kept, kept, kept)


def test_of_ever_new_words_few_are_passed_on() -> None:
    """Locust keeps a counter for each text; a gateway's request ids would fill its memory."""
    told: list[str] = []
    recorded: list[Outcome] = []
    sender = Sender(config("ranking_tiny"), cast(Any, None), on_request=lambda _, words: told.append(words))
    sender.recorder = cast(Any, SimpleNamespace(outcome=recorded.append))
    for number in range(1000):
        message = f"request {number} failed"
        sender._outcome(Outcome(cast(Any, None), 0, 0, 0, f"http_{number % 300 + 100}", message, None))
    assert len({outcome.error for outcome in recorded}) == MAX_KINDS + 1
    assert len(set(told)) <= (MAX_KINDS + 1) * MAX_MESSAGES + 1
    assert told[-1] == ""
