"""A locustfile of the user's own: what its class sets is honoured or refused."""

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from locust import HttpUser, LoadTestShape, User, between, task

from loadgen.users import InferenceUser, host_of
from servemark.errors import OptionError
from servemark.figures.registry import count_of
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.support.locust_run import command, run, server_of, the_result


def _own(**attributes: Any) -> type[InferenceUser]:
    return type("Mine", (InferenceUser,), {"own": get("ranking_tiny"), **attributes})


def _host(*classes: type[User], shape: object = None, **options: Any) -> str:
    parsed = Namespace(**{"host": None, "serve": False, **options})
    environment: Any = SimpleNamespace(user_classes=classes, shape_class=shape, parsed_options=parsed)
    return host_of(environment, InferenceUser)


@task
def _request(_: User) -> None: ...


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"wait_time": between(1, 2)}, ("Mine.wait_time", "--request-rate N")),
        ({"weight": 3}, ("Mine.weight", "--model NAME")),
        ({"fixed_count": 1}, ("Mine.fixed_count", "--model NAME")),
        ({"request": _request}, ("Mine.tasks", "no figure and no verdict")),
        ({"tasks": [_request]}, ("Mine.tasks", "no figure and no verdict")),
        ({"workload": "ranking"}, ("Mine.workload is not read", 'own = get("ranking")')),
    ],
)
def test_what_a_run_would_ignore_is_refused(attributes: dict[str, Any], words: tuple[str, str]) -> None:
    with pytest.raises(OptionError) as refused:
        _host(_own(**attributes))
    assert all(each in str(refused.value) for each in words)


def test_users_and_loads_of_locusts_own_are_refused() -> None:
    with pytest.raises(OptionError, match="is a user of Locust's own"):
        _host(_own(), type("Web", (HttpUser,), {"request": _request}))
    with pytest.raises(OptionError, match="--stages"):
        _host(_own(), shape=type("Steps", (LoadTestShape,), {"tick": lambda _: None})())


def test_the_class_names_the_server_and_the_command_line_comes_first() -> None:
    here, there = _own(host="http://a:1"), _own(host="http://b:1")
    assert _host(_own()) == ""
    assert _host(here, _own()) == "http://a:1"
    assert _host(here, host="http://c:1") == "http://c:1"
    assert _host(here, serve=True) == ""
    with pytest.raises(OptionError, match="-H HOST chooses"):
        _host(here, there)


def test_a_locustfile_of_the_users_own_loads_its_host_and_runs_on_start(tmp_path: Path) -> None:
    """A class that extends the user's own class counts too; the first run has no server, and prints no table."""
    locustfile = tmp_path / "mine.py"
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        locustfile.write_text(f"""
from loadgen.users import InferenceUser
from servemark.paths import CHECKOUT
from servemark.workload import get

class Base(InferenceUser):
    abstract = True

class Mine(Base):
    own = get("ranking_tiny")
    host = "{server.url}"

    def on_start(self):
        print("on_start ran")
""")
        done = run(locustfile, "--duration", "0.6", "--warmup", "0.1", "--out", str(tmp_path / "out"))
    assert "on_start ran" in done.stdout
    assert count_of(the_result(tmp_path / "out"), "requests.answered") > 0
    refused = run(locustfile, "--out", str(tmp_path / "none"))
    assert refused.returncode == 3
    assert "no server answers at" in refused.stderr
    assert "Aggregated" not in refused.stdout + refused.stderr


def test_garbage_is_collected_once_all_is_imported(tmp_path: Path) -> None:
    locustfile = tmp_path / "own.py"
    locustfile.write_text(
        "import gc; print(gc.isenabled(), gc.get_freeze_count() > 10_000)\nfrom loadgen.ranking import *"
    )
    line = [*command(locustfile), "--list"]
    done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[0] == "True True"
    assert "Ranking" in done.stdout


def test_help_shows_the_options_in_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadgen", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert "--request-rate" in done.stdout
    assert "--headless" in done.stdout
