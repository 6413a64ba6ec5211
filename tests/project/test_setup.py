"""`make setup`'s script with a Python that only writes down what it is asked: which packages, and when again."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import psutil
import pytest
from packaging.requirements import Requirement

from servemark.paths import CHECKOUT
from tests.support.locust_run import until

PYTHON = """#!/usr/bin/env bash
case "$1 $2" in
"-c import sys"*) case "$2" in *sysconfig*) ;; *) echo 3.11 ;; esac ;;
"-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-m pip")
    echo "${@:3}" >>calls
    [ -z "${HANG:-}" ] || [ "$3" != install ] || { echo $$ >>pids; exec sleep 600; } ;;
esac
"""
DF = """#!/bin/sh
echo Avail
echo "${FREE_GB:-100}G"
"""
COMPILED = "loadgen/sut/_stamped.c"
Setup = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the files that the script reads."""
    for file in (CHECKOUT / "setup.sh", CHECKOUT / "pyproject.toml", *CHECKOUT.glob("requirements.*")):
        shutil.copy(file, tmp_path)
    (tmp_path / "loadgen" / "sut").mkdir(parents=True)
    shutil.copy(CHECKOUT / COMPILED, tmp_path / COMPILED)
    (tmp_path / "fake").mkdir()
    for name, text in (("python", PYTHON), ("ldd", "#!/bin/sh\n"), ("df", DF)):
        (tmp_path / "fake" / name).write_text(text)
        (tmp_path / "fake" / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def setup(checkout: Path) -> Setup:
    """Runs the script; `calls` of pip are of this run only."""

    def run(gpu: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        (checkout / "calls").write_text("")
        fake = checkout / "fake"
        path = f"{fake}:{os.environ['PATH']}"
        around = {**os.environ, "PATH": path, "PYTHON": str(fake / "python"), "GPU": gpu, **variables}
        return subprocess.run(
            ["/bin/bash", "setup.sh"], cwd=checkout, env=around, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def names(checkout: Path, environment: str = ".venv") -> set[str]:
    """The packages that pip was told to install there."""
    text = (checkout / environment / "requirements.txt").read_text()
    return {line.partition("==")[0] for line in text.splitlines() if "==" in line}


def test_a_gpu_s_packages_take_the_place_of_the_cpu_s_and_stay(setup: Setup, checkout: Path) -> None:
    assert setup("1").returncode == 0
    assert "onnxruntime" not in names(checkout)
    assert {"onnxruntime-gpu", "nvidia-curand", "torch", "tensorflow_cpu"} <= names(checkout)
    calls = (checkout / "calls").read_text()
    assert "uninstall --quiet --yes onnxruntime\n" in calls
    assert "tensorrt==10" in calls
    setup()
    assert (checkout / "calls").read_text() == "", "nothing has changed"
    for changed in ("pyproject.toml", COMPILED):
        (checkout / changed).open("a").write("\n")
        setup()
        assert "onnxruntime-gpu" in names(checkout), "a pull of other pins does not bring the CPU's back"
    setup("0")
    assert "onnxruntime" in names(checkout)
    assert "onnxruntime-gpu" not in names(checkout)
    assert "uninstall --quiet --yes onnxruntime-gpu\n" in (checkout / "calls").read_text()
    setup()
    assert (checkout / "calls").read_text() == ""


def test_tensorflow_has_an_environment_without_the_other_cuda(setup: Setup, checkout: Path) -> None:
    assert setup("tensorflow").returncode == 0
    found = names(checkout, ".venv-tensorflow")
    assert {"nvidia-pytriton", "nvidia-ml-py", "locust", "numpy"} <= found
    assert "--require-hashes -r requirements.tensorflow.hashes" in (checkout / "calls").read_text()
    assert not found & {"torch", "triton", "tensorflow_cpu", "onnxruntime", "nvidia-cudnn-cu13", "cuda-bindings"}
    assert {name for name in found if name.startswith("nvidia-")} == {"nvidia-pytriton", "nvidia-ml-py"}
    pins = (CHECKOUT / "requirements.tensorflow.lock").read_text().splitlines()
    named = {line.partition("==")[0] for line in pins if not line.startswith("#")}
    assert all(name == "tensorflow" or name.endswith("-cu12") for name in named)
    wanted = [Requirement(text) for text in metadata.requires("tensorflow_cpu") or () if "and-cuda" in text]
    assert named == {"tensorflow", *(requirement.name for requirement in wanted)}
    versions = dict(line.split("==") for line in pins if not line.startswith("#"))
    assert all(versions[requirement.name] in requirement.specifier for requirement in wanted)
    assert versions["tensorflow"] == metadata.version("tensorflow_cpu")
    assert not (checkout / ".venv").exists()


def test_another_word_is_refused(setup: Setup) -> None:
    done = setup("yes")
    assert done.returncode == 3
    assert "GPU=yes is unknown" in done.stderr


def test_a_disk_without_room_shows_before_a_package_is_fetched(setup: Setup, checkout: Path) -> None:
    done = setup(FREE_GB="7")
    assert done.returncode == 3
    assert "7 GB are free" in done.stderr
    assert "install" not in (checkout / "calls").read_text()
    assert setup(FREE_GB="12").returncode == 0


def test_ctrl_c_ends_both_pips(checkout: Path) -> None:
    path, pids = f"{checkout / 'fake'}:{os.environ['PATH']}", checkout / "pids"
    around = {**os.environ, "PATH": path, "PYTHON": str(checkout / "fake" / "python"), "GPU": "", "HANG": "1"}
    pids.touch()
    with subprocess.Popen(
        ["/usr/bin/env", "--default-signal=INT", "/bin/bash", "setup.sh"],
        cwd=checkout,
        env=around,
        start_new_session=True,
    ) as process:
        until(lambda: len(pids.read_text().splitlines()) == 2, "both")
        os.killpg(process.pid, signal.SIGINT)
        until(lambda: process.poll() is not None, "its end")
        assert process.returncode == 130
    until(lambda: not any(psutil.pid_exists(int(pid)) for pid in pids.read_text().split()), "their end")
