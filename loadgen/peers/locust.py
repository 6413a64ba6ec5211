"""Locust itself, as its documentation shows it: Python, users that send and wait."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import ClassVar

from loadgen.peers.peer import Peer, PeerFigures, PeerLoad

_COLUMNS = (50, 66, 75, 80, 90, 95, 98, 99, 99.9)
_IMPORTS_S = 1
"""Its time runs while it still imports."""
_LOCUSTFILE = """\
from pathlib import Path

from locust import FastHttpUser, constant, constant_throughput, task


class Client(FastHttpUser):
    wait_time = {wait}
    body = Path({body!r}).read_bytes()

    @task
    def infer(self):
        self.client.post({path!r}, data=self.body, headers={fields!r})
"""


class Locust(Peer):
    """Closed loop over HTTP, also held to a rate: a user waits for its answer all the same. It shows 1 ms."""

    name: ClassVar[str] = "locust"
    install: ClassVar[str] = "pip install locust"
    speaks: ClassVar[str] = "HTTP"
    paced: ClassVar[bool] = True

    @property
    def program(self) -> str | None:
        """Return the one beside this Python, which servemark needs anyway."""
        return shutil.which(os.environ.get("LOCUST") or Path(sys.executable).with_name("locust"))

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.parts()
        (folder / "body").write_bytes(body)
        wait = "constant(0)" if load.rate is None else f"constant_throughput({load.rate / load.in_flight:g})"
        file = folder / "client.py"
        file.write_text(_LOCUSTFILE.format(wait=wait, body=str(folder / "body"), path=path, fields=fields))
        command = [str(self.program), "-f", str(file), "--headless", "--only-summary", "-H", load.url]
        users = str(load.in_flight)
        return [*command, "-u", users, "-r", users, "-t", f"{round(load.duration_s) + _IMPORTS_S}s"]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [totals, shares] = re.findall(r"^ +Aggregated +(.+)", output, re.MULTILINE)
        [failed], [rate] = re.findall(r"(\d+)\([\d.]+%\)", totals), re.findall(r"([\d.]+) +[\d.]+$", totals)
        return PeerFigures(float(rate), dict(zip(_COLUMNS, map(float, shares.split()), strict=False)), int(failed))
