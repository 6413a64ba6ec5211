"""Disturbances of a server or its client on purpose, each as a context around a run."""

import asyncio
import contextlib
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import psutil

from loadgen.load.load_config import LoadConfig

Disturbance = Callable[[LoadConfig], contextlib.AbstractContextManager[LoadConfig]]
"""Yields the run's configuration, changed where its way to the server is."""


@contextlib.contextmanager
def nothing(config: LoadConfig) -> Iterator[LoadConfig]:
    """Leave all as it is."""
    yield config


@contextlib.contextmanager
def busy_neighbour(config: LoadConfig) -> Iterator[LoadConfig]:
    """Keep two processes for each core busy. They are nobody's children, as other work is; each ends by itself."""
    until = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
    start = f"{shlex.quote(sys.executable)} -c {shlex.quote(until)} >/dev/null & echo $!"
    count = 2 * (os.cpu_count() or 1)
    hogs = [psutil.Process(int(subprocess.check_output(["/bin/sh", "-c", start]))) for _ in range(count)]
    try:
        yield config
    finally:
        for hog in hogs:
            with contextlib.suppress(psutil.NoSuchProcess):
                hog.kill()


def stopped_server(config: LoadConfig) -> contextlib.AbstractContextManager[LoadConfig]:
    """Stop the server's processes for 200 ms every 3 s."""
    roots = [psutil.Process(pid) for pid in config.access.address(config.url).processes()]
    return _stopping(config, lambda: [each for root in roots for each in (root, *root.children(True))], 0.2, 3.0)


def slow_client(config: LoadConfig) -> contextlib.AbstractContextManager[LoadConfig]:
    """Stop the load generator for 18 % of the time: each time for 60 ms, and for longer where requests are rare."""
    stop_s = max(0.06, 1.5 / config.scenario.rate)

    def locusts() -> list[psutil.Process]:
        return [each for each in psutil.Process().children(recursive=True) if "locust" in " ".join(each.cmdline())]

    return _stopping(config, locusts, stop_s, stop_s / 0.18)


@contextlib.contextmanager
def _stopping(
    config: LoadConfig, find: Callable[[], Sequence[psutil.Process]], stop_s: float, every_s: float
) -> Iterator[LoadConfig]:
    """Stop processes for some time, again and again."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s - stop_s):
            with contextlib.ExitStack() as going_on, contextlib.suppress(psutil.NoSuchProcess):
                for process in find():
                    process.suspend()
                    going_on.callback(_resume, process)
                time.sleep(stop_s)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield config
    finally:
        over.set()
        thread.join()


def _resume(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()


def delaying_proxy(config: LoadConfig) -> contextlib.AbstractContextManager[LoadConfig]:
    """Have each request pass a proxy that holds it for 25 ms."""
    return _proxy(config, lambda _: 0.025)


def throttling_proxy(config: LoadConfig) -> contextlib.AbstractContextManager[LoadConfig]:
    """Have requests pass a proxy that forwards three times as many packets a second as there are requests."""
    free, each = 0.0, 1 / (3 * config.scenario.rate)

    def wait(now: float) -> float:
        nonlocal free
        free = max(free, now) + each
        return free - now

    return _proxy(config, wait)


@contextlib.contextmanager
def _proxy(config: LoadConfig, wait: Callable[[float], float]) -> Iterator[LoadConfig]:
    """Run a proxy that forwards what a client sends after a wait (s), given the time at which it came (s)."""
    url = urlsplit(config.url)
    ready, port = threading.Event(), 0

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        while data := await reader.read(1 << 20):
            if held:
                await asyncio.sleep(wait(time.monotonic()))
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(url.hostname, url.port)
        await asyncio.gather(pipe(reader, outer, held=True), pipe(inner, writer, held=False), return_exceptions=True)

    async def serve() -> None:
        nonlocal port
        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 22)
        port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    loop = asyncio.new_event_loop()
    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: _until_cancelled(loop, task), daemon=True)
    thread.start()
    ready.wait(5)
    try:
        yield config.at(f"{url.scheme}://127.0.0.1:{port}")
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(5)


def _until_cancelled(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
