import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from servemark.machine import environment, limits
from servemark.machine.environment import boards, cpu_features, int8_overflows


class NvmlError(Exception):
    pass


def fake_nvml(count: int = 2) -> ModuleType:
    """NVML as pynvml shows it, on boards of an old generation: no MIG, no compute capability."""
    nvml = ModuleType("pynvml")

    def unsupported(*_: object) -> None:
        raise NvmlError("Not Supported")

    nvml.__dict__.update(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: b"Board %d" % index,  # bytes before version 12
        nvmlDeviceGetUUID=lambda index: f"GPU-{index}",
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=80_000_000_000),
        nvmlDeviceGetCudaComputeCapability=unsupported,
        nvmlDeviceGetEnforcedPowerLimit=lambda _: 300_000,
        nvmlDeviceGetPersistenceMode=lambda _: 1,
        nvmlDeviceGetMigMode=unsupported,
        nvmlDeviceGetMaxClockInfo=lambda _, clock: 1000 * clock,
        nvmlSystemGetCudaDriverVersion=lambda: 12040,
        nvmlSystemGetDriverVersion=lambda: "550.1",
    )
    return nvml


def test_has_every_key_and_says_what_the_system_says() -> None:
    found = environment.collect()
    assert set(found) == set(environment.Environment.__annotations__)
    assert json.loads(json.dumps(found)) == found
    assert found["hostname"] == os.uname().nodename
    assert found["cores_affinity"] == len(os.sched_getaffinity(0))
    assert 1 <= found["cores"] <= found["cores_affinity"] <= (found["cores_logical"] or 0)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found["memory_gb"] == pytest.approx(pages / 1e9, rel=0.01)
    import numpy as np

    assert found["packages"]["numpy"] == np.__version__


def test_it_imports_no_framework() -> None:
    # Its own process: this one has imported everything already.
    code = (
        "import sys; from servemark.machine import environment; environment.collect();"
        "print({'torch', 'onnxruntime', 'locust'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "set()\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def test_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path)
    assert environment._git.__wrapped__() == (None, None)
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert environment._git.__wrapped__() == (commit, False)
    (tmp_path / "file").write_text("b")
    assert environment._git.__wrapped__() == (commit, True)
    # An installed copy inside somebody else's repository is not that repository.
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path / "below")
    (tmp_path / "below").mkdir()
    assert environment._git.__wrapped__() == (None, None)


def test_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path)
    monkeypatch.setattr(environment, "GIT_TIMEOUT_S", 0.2)
    begin = time.monotonic()
    assert environment._git.__wrapped__() == (None, None)
    assert time.monotonic() - begin < 10


def test_gpus_of_an_old_board() -> None:
    gpus, reason, driver, cuda = boards(fake_nvml())
    assert (reason, driver, cuda) == (None, "550.1", "12.4")
    assert [gpu["name"] for gpu in gpus] == ["Board 0", "Board 1"]
    assert gpus[1] == {
        "index": 1,
        "name": "Board 1",
        "uuid": "GPU-1",
        "memory_gb": 80.0,
        "compute_capability": None,
        "sm_clock_max_mhz": 1000,
        "memory_clock_max_mhz": 2000,
        "power_limit_w": 300.0,
        "persistence_mode": True,
        "mig_mode": None,
    }


def test_no_gpu_has_a_reason() -> None:
    assert boards(fake_nvml(0))[:2] == ([], "NVML: no GPU")
    broken = fake_nvml()

    def init() -> None:
        raise NvmlError("Driver Not Loaded")

    broken.__dict__["nvmlInit"] = init
    assert boards(broken) == ([], "NVML: Driver Not Loaded", None, None)


def test_a_container_shows_what_it_may_use_beside_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "cores", lambda: limits.Cores(machine=64, affinity=16, quota=3.5))
    monkeypatch.setattr(limits, "memory", lambda: limits.Memory(256_000_000_000, 8_000_000_000, 1))
    found = environment.collect()
    assert (found["cores"], found["cores_affinity"], found["cpu_quota"]) == (4, 16, 3.5)
    assert found["cores_limited_by"] == "quota"
    assert (found["memory_gb"], found["memory_limit_gb"]) == (256.0, 8.0)


@pytest.mark.parametrize(("text", "features", "overflows"), [
    ("processor\t: 0\nflags\t\t: fpu avx2\n", {"fpu", "avx2"}, True),
    ("flags\t\t: avx2 avx_vnni\n", {"avx2", "avx_vnni"}, False),
    ("Features\t: fp asimd bf16\n", {"fp", "asimd", "bf16"}, True),
    (None, set(), True),
])  # fmt: skip
def test_instructions_of_intel_and_arm_without_some_of_which_sums_of_8_bit_products_overflow(
    text: str | None, features: set[str], overflows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_read", lambda _: text)
    assert (cpu_features(), int8_overflows()) == (features, overflows)
