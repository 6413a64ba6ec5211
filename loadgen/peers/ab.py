"""ab: Apache's, of C, over HTTP/1.0 with keep-alive."""

import re
from pathlib import Path
from typing import ClassVar

from loadgen.peers.peer import REQUEST_TIMEOUT_S, Peer, PeerFigures, PeerLoad

_MOST_REQUESTS = 2_000_000


class ApacheBench(Peer):
    """Closed loop over HTTP. It shows whole milliseconds, and counts a lost connection several times."""

    name: ClassVar[str] = "ab"
    install: ClassVar[str] = "apt install apache2-utils"
    speaks: ClassVar[str] = "HTTP/1.0"
    closed_only: ClassVar[str] = "it has no open loop"

    def command(self, load: PeerLoad, folder: Path) -> list[str]:
        path, fields, body = load.parts()
        (folder / "body").write_bytes(body)
        # Without -r it ends at the first lost connection.
        command = [str(self.program), "-q", "-k", "-r", "-c", str(load.in_flight), "-s", str(REQUEST_TIMEOUT_S)]
        command += ["-t", f"{round(load.duration_s)}", "-n", str(_MOST_REQUESTS), "-p", str(folder / "body")]
        for name, value in fields.items():
            command += ["-T", value] if name == "Content-Type" else ["-H", f"{name}: {value}"]
        return [*command, load.url + path]

    def read(self, output: str, folder: Path) -> PeerFigures:  # noqa: ARG002 - the interface
        [rate] = re.findall(r"Requests per second: +([\d.]+)", output)
        failed = re.findall(r"(?:Failed requests|Non-2xx responses): +(\d+)", output)
        latencies = re.findall(r"^ +(\d+)% +(\d+)", output, re.MULTILINE)
        return PeerFigures(float(rate), {float(which): float(ms) for which, ms in latencies}, sum(map(int, failed)))
