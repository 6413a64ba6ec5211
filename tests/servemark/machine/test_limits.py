"""Share of the machine that a process may use, from control groups as containers and services have them."""

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from servemark.compare.interleaved.hosting import fit_together
from servemark.machine.limits import Cores, Memory, cores, memory

GB = 10**9
V2 = {"cgroup.controllers": "cpuset cpu memory"}
NONE_V1 = str(2**63 - 4096)
"""Value of version 1 if memory has no limit."""
V1_OF_2_GB = {"memory/memory.limit_in_bytes": f"{2 * GB}", "memory/memory.usage_in_bytes": f"{2 * GB}"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen cores, eight of them in this process's cpuset, and 64 GB, half of them free."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=64 * GB, available=32 * GB))


def system(root: Path, own: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("", {}, None),
        ("0::/\n", V2, None),
        ("0::/\n", V2 | {"cpu.max": "max 100000"}, None),
        ("0::/\n", V2 | {"cpu.max": "150000 100000"}, 1.5),
        # A service within a slice: what binds the slice binds it too.
        ("0::/a/b\n", V2 | {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("0::/a/b\n", V2 | {"a/cpu.max": "200000 100000", "a/b/cpu.max": "50000 100000"}, 0.5),
        ("0::/a\n", V2 | {"cpu.max": "max 100000", "another/cpu.max": "1000 100000"}, None),
        # The path is the host's, and what is mounted the container's own group.
        ("0::/docker/1f\n", V2 | {"cpu.max": "300000 100000"}, 3.0),
        ("0::/../outside\n", V2 | {"cpu.max": "300000 100000"}, 3.0),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ("4:cpu:/a\n0::/\n", {"cpu/a/cpu.cfs_quota_us": "25000", "cpu/a/cpu.cfs_period_us": "50000"}, 0.5),
    ],
)
def test_quota(own: str, files: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    found = cores(system(tmp_path, own, files))
    assert (found.machine, found.affinity, found.quota) == (16, 8, quota)


@pytest.mark.parametrize(
    ("found", "allowed", "by", "said"),
    [
        (Cores(8, 8, None), 8, "machine", "8 cores"),
        (Cores(16, 8, None), 8, "affinity", "8 of 16 cores (the affinity)"),
        (Cores(16, 8, 12.0), 8, "affinity", "8 of 16 cores (the affinity)"),
        (Cores(16, 8, 3.5), 4, "quota", "4 of 16 cores (a quota of 3.5)"),
        (Cores(16, 16, 0.5), 1, "quota", "1 of 16 cores (a quota of 0.5)"),
    ],
)
def test_the_narrowest_limit_holds_and_is_named(found: Cores, allowed: int, by: str, said: str) -> None:
    assert (found.allowed, found.limited_by, str(found)) == (allowed, by, said)


def held(limit: int, used: int, group: str = "") -> dict[str, str]:
    """A group's files of version 2, of GB."""
    return {f"{group}memory.max": f"{limit * GB}", f"{group}memory.current": f"{used * GB}"}


@pytest.mark.parametrize(
    ("own", "files", "limit", "available"),
    [
        ("", {}, None, 32 * GB),
        ("0::/\n", V2 | {"memory.max": "max", "memory.current": "5"}, None, 32 * GB),
        # Files in the cache that lie idle make room.
        ("0::/\n", V2 | held(8, 6) | {"memory.stat": f"anon 7\ninactive_file {3 * GB}"}, 8 * GB, 5 * GB),
        ("0::/a/b\n", V2 | held(9, 8, "a/") | held(4, 1, "a/b/"), 4 * GB, 1 * GB),
        ("0::/\n", V2 | held(60, 1), 60 * GB, 32 * GB),
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": NONE_V1, "memory/memory.usage_in_bytes": "1"}, None, 32 * GB),
        ("5:memory:/\n", V1_OF_2_GB | {"memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {GB}"}, 2 * GB, GB),
    ],
)
def test_memory(own: str, files: dict[str, str], limit: int | None, available: int, tmp_path: Path) -> None:
    assert memory(system(tmp_path, own, files)) == Memory(64 * GB, limit, available)


def test_models_must_fit_into_the_containers_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model/1").mkdir(parents=True)
    monkeypatch.setattr("servemark.machine.limits.memory", lambda: Memory(64 * GB, 4 * GB, 3 * GB))
    assert fit_together([tmp_path / "model"] * 2)
    assert not fit_together([tmp_path / "model"] * 3)
