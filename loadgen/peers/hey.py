"""hey: a goroutine for each request in flight, over Go's own HTTP client."""

import re
from pathlib import Path
from typing import ClassVar

from loadgen.peers.peer import REQUEST_TIMEOUT_S, Peer, PeerFigures, PeerLoad


class Hey(Peer):
    """Closed loop over HTTP, also held to a rate: a request waits for an answer all the same. It shows 0.1 ms."""

    name: ClassVar[str] = "hey"
    install: ClassVar[str] = "apt install hey"
    speaks: ClassVar[str] = "HTTP"
    paced: ClassVar[bool] = True

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.parts()
        (folder / "body").write_bytes(body)
        command = [str(self.program), "-m", "POST", "-D", str(folder / "body"), "-t", str(REQUEST_TIMEOUT_S)]
        command += ["-c", str(load.in_flight), "-z", f"{load.duration_s:g}s"]
        if load.rate is not None:
            command += ["-q", f"{load.rate / load.in_flight:g}"]  # of each worker
        for name, value in fields.items():
            command += ["-T", value] if name == "Content-Type" else ["-H", f"{name}: {value}"]
        return [*command, load.url + path]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [rate] = re.findall(r"Requests/sec:\s+([\d.]+)", output)
        latencies = re.findall(r"(\d+)%+ in ([\d.]+) secs", output)
        statuses = re.findall(r"\[(\d+)\]\t(\d+) responses", output)
        errors = re.findall(r"^\s*\[(\d+)\]\t(?!\d+ responses)", output, re.MULTILINE)
        failed = sum(int(count) for status, count in statuses if status != "200") + sum(map(int, errors))
        return PeerFigures(float(rate), {float(which): float(s) * 1e3 for which, s in latencies}, failed)
