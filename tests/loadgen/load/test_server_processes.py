"""The processes that serve a run are those that listen and those that were named, or it is told why not."""

import os
from collections.abc import Sequence
from typing import cast

import pytest

from loadgen.load.server_processes import server_processes
from loadgen.transport.tcp import Address
from tests.support.load_config import config


class Listening:
    """An address at which a test chooses the listeners; None: they cannot be known."""

    def __init__(self, *pids: int | None) -> None:
        self.pids = pids

    def processes(self) -> list[int]:
        if None in self.pids:
            raise LookupError("another user's")
        return [pid for pid in self.pids if pid is not None]


def serving(addresses: Sequence[Listening], *flags: str) -> list[int]:
    asked = config("ranking_tiny", "--url", "http://127.0.0.1:9", *flags)
    return server_processes(asked, cast(Sequence[Address], addresses))


def test_who_listens_and_who_was_named_serve() -> None:
    me = os.getpid()
    assert serving([]) == []
    assert serving([Listening(7, 5), Listening(5)]) == [5, 7]
    assert serving([Listening(me + 1)], f"--server-process={me}") == [me, me + 1]


def test_one_that_was_named_is_enough_where_it_is_not_seen_who_listens() -> None:
    assert serving([Listening(None)], f"--server-process={os.getpid()}") == [os.getpid()]
    with pytest.raises(LookupError, match="another user's"):
        serving([Listening(None)])
