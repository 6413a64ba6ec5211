"""A calibration with real processes: a load generator whose errors are known, and one that cannot be read."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from loadgen.peers.programs import Peer, PeerFigures, PeerLoad
from servemark.calibration import run
from servemark.calibration.cases import CASES
from servemark.calibration.golden.behaviour import Behaviour
from servemark.calibration.measure import METERS
from servemark.documents.commands.understand import Calibrate
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.views.kinds.calibration import checks
from tests.support.calibrated import NAMED, document
from tests.support.documents import validated
from tests.support.rendering import shown

_CLIENT = """
import socket, sys, time
request = open(sys.argv[2], "rb").read()
for _ in range(30):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as client:
        client.sendall(request)
        try:
            print("came" if b"200 OK" in client.recv(65536) else "lost")
        except ConnectionResetError:
            print("lost")
"""


class Client(Peer):
    """Sends 30 requests, and says that each took 7 ms."""

    name: ClassVar[str] = "servemark"
    install: ClassVar[str] = ""
    closed_only: ClassVar[str] = "it has no open loop"

    @property
    def program(self) -> str | None:
        return sys.executable

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        (folder / "request").write_bytes(load.request)
        return [sys.executable, "-c", _CLIENT, load.endpoint.rpartition(":")[2], str(folder / "request")]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002
        assert output.count("came") + output.count("lost") == 30
        return PeerFigures(1, {50: 7.0, 99: 7.0}, 0)


class Silent(Client):
    """Its report cannot be read."""

    name: ClassVar[str] = "silent"

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002
        raise ValueError(output)


def test_a_known_error_is_found(tmp_path: Path) -> None:
    cases = [replace(NAMED["resets"], behaviour=Behaviour(delay_s=0.005, reset_every=10)), NAMED["stall"]]
    folder, document = run.calibrate(Calibrate(out=tmp_path), cases, [Client(), Silent()])
    assert directory.read(folder) == validated(document)
    measured, silent, cannot, _ = document["rows"]
    assert (measured["requests"], measured["failures_true"], measured["failures_reported"]) == (30, 3, 0)
    error = measured["error_ms"]["p50"]
    assert error is not None
    assert 0 < error <= 2
    assert "silent reported nothing that can be read" in str(silent.get("reason"))
    assert (cannot["able"], cannot.get("reason")) == (False, "servemark: it has no open loop")
    assert "reported 0.00 times the failures" in document["meters"][0]["wrong"]
    assert not document["partial"]
    assert "resets: silent reported nothing" in shown(document)


def test_the_usual_calibration_ends_within_three_minutes() -> None:
    meters = [*METERS.values()]
    chosen = run.in_time(CASES, meters)
    assert chosen[0].name == "servemark"
    assert run.planned_s(CASES, chosen, 1) <= run.MOST_S


@pytest.mark.parametrize(
    ("error_ms", "other", "outcome", "code"),
    [(0.05, 0.01, "trusted", 0), (0.05, 0.5, "trusted", 0), (1.5, 0.01, "not trusted", 4), (1.5, 0.5, "undecided", 2)],
)
def test_outcomes(error_ms: float, other: float, outcome: str, code: int) -> None:
    found = validated(document(error_ms, other))
    assert (found["verdict"]["outcome"], found["verdict"]["exit_code"]) == (outcome, code)
    assert found["meters"][0]["trusted"] == (outcome == "trusted")
    [check] = checks(Saved("c", dict(found)))
    assert check.ok == {"trusted": True, "not trusted": False, "undecided": None}[outcome]


def test_each_generator_has_its_figures() -> None:
    ours, wrk = document()["meters"]
    assert ours["within_ms"] == pytest.approx(0.05)  # at p50 of the stall, whose truth is 0
    assert (ours["worst"], ours["failures_share"], ours["step_ms"]) == ("stall p50", 1, 0.01)
    assert ours["floor_ms"] == pytest.approx(5.05)
    assert wrk["within_ms"] == pytest.approx(1 - 0.01 * 5)
    assert (wrk["failures_share"], wrk["step_ms"], wrk["offset_p99_ms"]) == (3, 1, None)
    assert wrk["wrong"] == ["off by 0.95 ms + 1% at floor p50", "reported 3.00 times the failures"]
