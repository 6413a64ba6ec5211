"""A server that does nothing: it answers every complete request with the same bytes. The generator's own ceiling.

    python -m benchmarks.rig.null_server 8000

One thread, epoll, two system calls for a request: recv and send. That is near what any server costs on
loopback, where the sender's call also does the receiver's part of TCP.
"""

import ctypes
import json
import select
import signal
import socket
import subprocess
import sys
from typing import Self

from servemark.calibration.golden.behaviour import Behaviour, Entry
from servemark.calibration.golden.connection import Service, error, response

MODEL = "identity"
START_WITHIN_S = 20.0
HEAD_END = b"\r\n\r\n"


class NullServer:
    """The server in a process of its own, on a free port."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.rig.null_server", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_WITHIN_S)
        port = self._process.stdout.readline() if ready else ""
        if not port:
            self._process.kill()
            raise SystemExit("the null server did not start")
        from benchmarks.rig.load import Endpoints  # the server itself needs none of it

        self.endpoints = Endpoints(f"127.0.0.1:{int(port)}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Replies(Service[Entry]):
    """The golden server's replies, with the count of its answers."""

    count = 0

    def get(self, path: str) -> bytes:
        """Answer the questions that both generators ask before and after a run; everything else is 404."""
        self.record.success = self.count
        self.record.batches = {1: [self.count, 0]}  # nothing takes time here
        answer = self.answer(path)
        return error(404, f"no {path}") if answer is None else response(200, json.dumps(answer).encode())


def serve(listener: socket.socket, replies: Replies) -> None:
    """Answer until killed."""
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
                    replies.count += 1
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
            replies.count += 1
            connection.sendall(replies.known_answer)
        else:
            connection.sendall(replies.get(path))
    return length


def main() -> None:
    """Listen on loopback at the port that is given, 0 for a free one, which is printed."""
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
    pr_set_pdeathsig = 1  # prctl(2): Linux kills this process when its parent ends, however that ends
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    print(listener.getsockname()[1], flush=True)
    serve(listener, Replies(Behaviour(model=MODEL)))


if __name__ == "__main__":
    main()
