"""A server of another product: started, asked, and gone with all that it started; its environment."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from servemark.errors import ServerError
from servemark.telemetry.processes import memory_bytes
from servers.launch import product_server
from servers.launch.product_server import Environment, ProductServer
from servers.products import Deployment
from tests.servers.products.test_onnx_model import OUTPUTS, X
from tests.support import tiny_product
from tests.support.locust_run import alive
from tests.support.small_models import affine, expected

MLSERVER = Environment("mlserver")


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_logs: None) -> Deployment:  # noqa: ARG001
    tiny_product.install(monkeypatch, tmp_path)
    return Deployment("affine", affine(tmp_path / "models", "onnxruntime"), [X], OUTPUTS, max_batch=8, threads=1)


def test_it_answers_on_loopback_and_leaves_nothing(deployment: Deployment) -> None:
    x = np.ones((1, 8), np.float32)
    with ProductServer(tiny_product.NAME, deployment) as server:
        answer = requests.post(f"http://{server.http}/predict", json={"X": x[0].tolist()}, timeout=10).json()
        assert server.root
        members = psutil.Process(server.root).children(recursive=True)
        memory = memory_bytes(server.root)
    np.testing.assert_allclose(answer["SCORES"], expected(x)["SCORES"][0], rtol=1e-5)
    assert memory
    assert memory > 10 << 20
    assert server.startup_s > 0
    # The one that has left the process group is among them.
    assert len(members) == 2
    assert not [process for process in members if alive(process)]


def test_one_that_ends_shows_its_log(deployment: Deployment) -> None:
    server = ProductServer(tiny_product.NAME, replace(deployment, model="broken"))
    with pytest.raises(ServerError, match=r"(?s)exit status 1.*no such model"), server:
        pass


def test_an_environment_that_is_not_there_names_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ServerError, match="is not installed") as error:
        MLSERVER.require()
    assert error.value.fix == "servemark servers install mlserver"
    assert MLSERVER.folder.is_relative_to(tmp_path)


def test_an_environment_is_made_of_pins_and_made_anew_where_they_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[list[str]] = []

    def run(self: Environment, command: list[str], *_: object) -> None:
        ran.append(command)
        self.folder.mkdir(exist_ok=True)

    pinned = tmp_path / "pins.txt"
    pinned.write_text("mlserver==1\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(product_server, "pins", lambda _: pinned)
    monkeypatch.setattr(product_server, "PYTHON", sys.version_info[:2])
    monkeypatch.setattr(Environment, "_run", run)
    MLSERVER.install()
    assert MLSERVER.installed
    assert [command[1:3] for command in ran] == [["-m", "venv"], ["-m", "pip"]]
    assert {"--require-hashes", "--no-deps", str(pinned)} <= {*ran[1]}
    pinned.write_text("mlserver==2\n")
    assert not MLSERVER.installed


def test_pip_s_last_lines_are_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(product_server, "interpreter", lambda: "/bin/false")
    with pytest.raises(ServerError, match="mlserver cannot be installed"):
        MLSERVER.install()
    assert not MLSERVER.installed


def test_packages_of_this_environment_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert "PYTHONPATH" not in product_server.own_variables()
