"""Disturbances of a server or its client on purpose, each as a context around a run."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import psutil

from loadgen.load.load_config import LoadConfig
from servemark.machine.addresses import listeners

Disturbance = Callable[[LoadConfig], contextlib.AbstractContextManager[LoadConfig]]
"""Yields the run's configuration, changed where its way to the server is."""


@contextlib.contextmanager
def nothing(config: LoadConfig) -> Iterator[LoadConfig]:
    """Leave all as it is."""
    yield config


@contextlib.contextmanager
def busy_neighbour(config: LoadConfig) -> Iterator[LoadConfig]:
    """Keep two processes for each core busy."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield config
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def _stopped(find: Callable[[], Sequence[psutil.Process]], stop_s: float, every_s: float) -> threading.Event:
    """Stop processes for some time, again and again, until the event is set."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s - stop_s):
            found = find()
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in found:
                    process.send_signal(signal.SIGSTOP)
            time.sleep(stop_s)
            for process in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    threading.Thread(target=run, daemon=True).start()
    return over


@contextlib.contextmanager
def stopped_server(config: LoadConfig) -> Iterator[LoadConfig]:
    """Stop the server's processes for 200 ms every 3 s."""
    host, port = config.access.address(config.url).sockaddr[:2]
    roots = [psutil.Process(pid) for pid in listeners(str(host), int(port))]
    over = _stopped(lambda: [each for root in roots for each in (root, *root.children(recursive=True))], 0.2, 3.0)
    try:
        yield config
    finally:
        over.set()
        time.sleep(0.3)


@contextlib.contextmanager
def slow_client(config: LoadConfig) -> Iterator[LoadConfig]:
    """Stop the load generator for 60 ms three times a second."""

    def locusts() -> list[psutil.Process]:
        return [each for each in psutil.Process().children(recursive=True) if "locust" in " ".join(each.cmdline())]

    over = _stopped(locusts, 0.06, 0.333)
    try:
        yield config
    finally:
        over.set()
        time.sleep(0.1)


@contextlib.contextmanager
def delaying_proxy(config: LoadConfig) -> Iterator[LoadConfig]:
    """Have each request pass a proxy that holds it for 25 ms."""
    url = urlsplit(config.url)
    ready, port = threading.Event(), 0

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
        while data := await reader.read(1 << 16):
            await asyncio.sleep(delay_s)
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(url.hostname, url.port)
        await asyncio.gather(pipe(reader, outer, 0.025), pipe(inner, writer, 0.0), return_exceptions=True)

    async def serve() -> None:
        nonlocal port
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
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
