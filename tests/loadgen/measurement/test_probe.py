"""The first request, alone before the load: how often it is tried, for how long, and what it says."""

import itertools
from typing import Any

import pytest

from loadgen.measurement.probe import require_answer
from loadgen.targets.open import open_target
from servemark.errors import ServerError
from servemark.workload import get
from tests.support.load_config import config
from tests.support.locust_run import server_of

AGAIN = "--request-timeout with more seconds"


@pytest.mark.parametrize(
    ("behaviour", "timeout", "sent", "words"),
    [
        ({}, "30", 1, None),
        ({"error_every": 1}, "30", 3, "http_500: HTTP 500: golden error on request 1"),
        ({"never_every": 1}, "1", 1, f"timeout: no response within 1 s.*{AGAIN}"),
    ],
)
def test_a_first_request(behaviour: dict[str, Any], timeout: str, sent: int, words: str | None) -> None:
    """Requests of the load begin with those that were tried; a server that does not answer is asked once."""
    with server_of(get("ranking_tiny"), **behaviour) as server:
        asked = config("ranking_tiny", "--url", server.url, "--request-timeout", timeout)
        target = open_target(asked)
        whole = [*itertools.islice(target.payloads(None), 5)]
        if words is None:
            requests, tried = require_answer(target, target.payloads(None), asked, lambda _: None)
            assert tried == sent
            assert [*itertools.islice(requests, 5)] == whole
        else:
            with pytest.raises(ServerError, match=f"(?s)^ranking_tiny_onnxruntime fails at a first request, {words}"):
                require_answer(target, target.payloads(None), asked, lambda _: None)
        assert len(server.requests()) == sent
