"""What is read from Locust's inside, against the Locust that is installed."""

import itertools

import pytest
from locust import argument_parser
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from loadgen.locust_bridge.locust_internals import leave_with_own_code, remember_default_options, request_listeners
from servemark.errors import ExitCode


def test_a_bad_flag_ends_locust_with_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    parser = LocustArgumentParser()
    leave_with_own_code(parser)
    with pytest.raises(SystemExit) as bad:
        parser.parse_args(["--no-such-flag"])
    with pytest.raises(SystemExit) as asked:
        parser.parse_args(["--help"])
    assert (bad.value.code, asked.value.code) == (ExitCode.LOCUST, 0)
    assert "--no-such-flag" in capsys.readouterr().err


def test_the_default_options_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setitem(vars(argument_parser), "default_args_dict", lambda: {"call": next(calls)})
    remember_default_options()
    assert argument_parser.default_args_dict() == argument_parser.default_args_dict() == {"call": 0}


def test_who_listens_to_requests_is_known_at_any_time() -> None:
    environment = Environment()
    environment.create_local_runner()
    listeners, own = request_listeners(environment)
    assert listeners == own != []
    environment.events.request.add_listener(lambda **_: None)
    assert len(listeners) == len(own) + 1
