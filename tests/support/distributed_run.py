"""A master, its workers and a golden server as processes on the hosts of a network."""

import contextlib
import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import requests

from loadgen.load.load_config import LoadConfig
from loadgen.targets.http import http_encoder
from loadgen.targets.payloads import payloads
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.support.locust_run import command, server_of, started
from tests.support.network import Host, Network

HEAD_END = b"\r\n\r\n"
_READ_LOG = "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1] + '/golden/log').read().decode())"


@dataclass
class Server:
    """A golden server on the master's host; it is asked from there."""

    host: Host
    url: str

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests that the server has received."""
        log: dict[str, list[dict[str, Any]]]
        if self.host.prefix:
            ask = [*self.host.prefix, sys.executable, "-c", _READ_LOG, self.url]
            log = json.loads(subprocess.run(ask, check=True, capture_output=True, text=True, timeout=20).stdout)
        else:
            log = requests.get(f"{self.url}/golden/log", timeout=20).json()
        return log["requests"]

    def contents(self) -> Counter[int]:
        """Count the requests with each content."""
        return Counter(request["crc32"] for request in self.requests())


@contextlib.contextmanager
def golden_server(network: Network, log: Path, **behaviour: Any) -> Iterator[Server]:
    """A golden server with the tensors of the tiny ranking model, which every host reaches."""
    config = server_of(get("ranking_tiny"), **behaviour).config
    serve = [sys.executable, "-m", "tests.golden.server", "--host", network.server, "--config", config]
    with subprocess.Popen(
        [*network.centre.prefix, *serve], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=log.open("wb"), text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            yield Server(network.centre, f"http://{network.server}:{port}")
        finally:
            process.kill()


@contextlib.contextmanager
def workers(network: Network, port: int, folder: Path, *flags: str) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """A worker on each host of the network; their output goes to worker-<n>.log."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(started([*host.prefix, *_worker(host, port, flags)], folder / f"worker-{number}.log"))
            for number, host in enumerate(network.hosts)
        ]


def _worker(host: Host, port: int, flags: Sequence[str]) -> list[str]:
    """A worker's command: nothing but where the master is."""
    line = command("ranking", "--worker", "--master-host", host.master, "--master-port", str(port), *flags)
    return [part for part in line if part not in {"--headless", "--only-summary"}]


def master(network: Network, port: int, *flags: str) -> list[str]:
    """The master's command; it waits for all workers."""
    ours = ["--master", "--master-bind-host", "*", "--master-bind-port", str(port)]
    ours += ["--expect-workers", str(len(network.hosts))]
    return [*network.centre.prefix, *command("ranking", *ours, *flags)]


def contents_of(config: LoadConfig, count: int) -> Counter[int]:
    """Count each content that one process sends in `count` requests."""
    encoded = payloads(config, http_encoder(config, "any"), None)
    return Counter(zlib.crc32(payload.request.partition(HEAD_END)[2]) for payload in islice(encoded, count))
