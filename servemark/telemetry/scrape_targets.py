"""Targets of the Prometheus that `servemark dashboards up` starts: each Triton of ours is one for as long as it lives.

Prometheus reads the files of a folder anew when they change (`file_sd_configs`). So a server at a port that was free is
found, too.
"""

import json
import os
from pathlib import Path

import psutil

from servemark.paths import MONITORING

TARGETS = "prometheus/targets"
TRITON = "triton"


class ScrapeTarget:
    """One address that Prometheus scrapes until `remove`; nothing is written where no Prometheus has its folder."""

    def __init__(self, job: str, address: str, monitoring: Path = MONITORING) -> None:
        folder = monitoring / TARGETS
        self._file = folder / f"{job}-{os.getpid()}-{address.rpartition(':')[2]}.json"
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            return
        for path in folder.glob(f"{job}-*-*.json"):
            pid = path.stem.split("-")[1]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                path.unlink(missing_ok=True)
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps([{"targets": [address]}]) + "\n")
        draft.replace(self._file)

    def remove(self) -> None:
        """Have Prometheus forget the address."""
        self._file.unlink(missing_ok=True)
