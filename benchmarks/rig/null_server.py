"""A server that does nothing: it answers every complete request with the same bytes. The generator's own ceiling.

    python -m benchmarks.rig.null_server 8000 [PROCESSES]

One thread in each process, epoll, two system calls for a request: recv and send. That is near what any server costs on
loopback, where the sender's call also does the receiver's part of TCP.
"""

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Self

from benchmarks.rig.load import Endpoints
from servemark.calibration.golden.behaviour import Behaviour, Entry
from servemark.calibration.golden.connection import error, response
from servemark.calibration.golden.server import Service

MODEL = "identity"
START_WITHIN_S = 20.0
HEAD_END = b"\r\n\r\n"


class NullServer:
    """The server in processes of its own, on a free port."""

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.rig.null_server", "0", str(self._processes)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_WITHIN_S)
        port = self._process.stdout.readline() if ready else ""
        if not port:
            self._process.kill()
            raise SystemExit("the null server did not start")
        self.pid = self._process.pid
        self.endpoints = Endpoints(f"127.0.0.1:{int(port)}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Replies(Service[Entry]):
    """The golden server's replies. `counts` has the answers of each process, and this is the one at `place`."""

    def __init__(self, counts: memoryview, place: int) -> None:
        super().__init__(Behaviour(model=MODEL))
        self.counts, self.place = counts, place

    def get(self, path: str) -> bytes:
        """Answer the questions that both generators ask before and after a run; everything else is 404."""
        count = self.record.success = sum(self.counts)
        self.record.batches = {1: [count, 0]}  # nothing takes time here
        answer = self.answer(path)
        return error(404, f"no {path}") if answer is None else response(200, json.dumps(answer).encode())


def serve(listener: socket.socket, replies: Replies) -> None:
    """Answer until killed."""
    counts, place = replies.counts, replies.place
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    connections: dict[int, tuple[socket.socket, bytearray]] = {}
    whole = 0  # bytes of an inference request, once one has been read: all of them are as long
    inference = replies.known_answer
    while True:
        for fd, _ in poll.poll():
            if fd not in connections:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = (connection, bytearray())
                poll.register(connection, select.EPOLLIN)
                continue
            connection, received = connections[fd]
            try:
                data = connection.recv(65536)
                if len(data) == whole and not received and data.startswith(b"POST"):
                    counts[place] += 1
                    connection.send(inference)
                elif data:
                    received += data
                    whole = _answer(connection, received, replies) or whole
            except ConnectionError:
                data = b""
            if not data:
                del connections[fd]
                connection.close()


def _answer(connection: socket.socket, received: bytearray, replies: Replies) -> int:
    """Answer every request that is complete; the length of the last one for an inference, 0 without one."""
    length = 0
    while (end := received.find(HEAD_END)) >= 0:
        head = received[:end].decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:])
        size = end + len(HEAD_END) + int(fields.get("content-length", 0))
        if len(received) < size:
            break
        del received[:size]
        method, path, _ = head.split(" ", 2)
        if method == "POST":
            length = size
            replies.counts[replies.place] += 1
            connection.sendall(replies.known_answer)
        else:
            connection.sendall(replies.get(path))
    return length


def main() -> None:
    """Listen on loopback at the port that is given, 0 for a free one, which is printed."""
    port, processes = (int(each) for each in [*sys.argv, "1"][1:3])
    counts = memoryview(mmap.mmap(-1, 8 * processes)).cast("Q")
    listeners = []
    for _ in range(processes):
        # Each process has a listener of its own: the kernel spreads connections over those of one port.
        listeners.append(socket.create_server(("127.0.0.1", port), backlog=1024, reuse_port=True))
        port = listeners[0].getsockname()[1]
    _end_with_parent()
    place = 0
    for child in range(1, processes):
        if not os.fork():
            _end_with_parent()
            place = child
            break
    else:
        print(port, flush=True)
    for index, listener in enumerate(listeners):
        if index != place:
            listener.close()  # connections that nobody accepts must not come to it
    serve(listeners[place], Replies(counts, place))


def _end_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, however that ends."""
    pr_set_pdeathsig = 1  # prctl(2)
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


if __name__ == "__main__":
    main()
