"""Messages of strangers and liars to the master of a distributed run, over Locust's own connection."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import psutil
import zmq

from servemark.paths import CHECKOUT
from servemark.results.verdict import Kind
from tests.faults.answers import ANY
from tests.faults.generator import SERVEMARK, Rig, Run
from tests.faults.machine import JUDGED_MIB
from tests.faults.registry import Expected, Seen, fault

GARBAGE = [b"", b"\xc1", b"\x93", b"\x90", b"GET / HTTP/1.1", msgpack.dumps(["client_ready", 7, "stranger"])]
BETWEEN_S = 0.02


def master_port(run: Run) -> int:
    """Find the port of a run's master."""
    for each in run.children():
        with contextlib.suppress(psutil.Error):
            flags = [part for part in each.cmdline() if part.startswith("--master-bind-port=")]
            if flags:
                return int(flags[0].partition("=")[2])
    return 0


@contextlib.contextmanager
def stranger(port: int, name: bytes = b"stranger") -> Iterator["zmq.Socket[bytes]"]:
    """A connection to the master under any name."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.IDENTITY, name)
        dealer.setsockopt(zmq.LINGER, 200)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        yield dealer


@fault(38, "garbage-packets", "garbage comes to the master before its workers and in the run", "6 packets every 20 ms",
       Expected(codes=ANY, growth_mib=JUDGED_MIB))  # fmt: skip
def _garbage(rig: Rig) -> Seen:
    over = threading.Event()

    def send(run: Run) -> None:
        while not (port := master_port(run)) and run.process.poll() is None:
            over.wait(BETWEEN_S)
        with socket.socket() as raw, stranger(port) as dealer:
            raw.connect_ex(("127.0.0.1", port))
            while run.process.poll() is None and not over.wait(BETWEEN_S):
                for packet in GARBAGE:
                    with contextlib.suppress(zmq.Again):
                        dealer.send(packet, zmq.NOBLOCK)

    try:
        return rig.answered(
            *("--workers", "2", "--duration", "4", "--concurrency", "4"),
            command=SERVEMARK,
            loaded=lambda: True,
            during=send,
        )
    finally:
        over.set()


LIAR = """
import builtins, os, sys
real = builtins.__import__
def lying(*arguments, **named):
    module = real(*arguments, **named)
    worker = sys.modules.get("loadgen.distributed.worker")
    if worker is not None and hasattr(worker, "Worker") and not hasattr(worker, "lied"):
        worker.lied = True
        honest = worker.state_of
        def state_of(recorder, **kind):
            state = honest(recorder, **kind)
            if os.path.exists(TOKEN) and open(TOKEN).read() == str(os.getpid()) or claim():
                LIE
            return state
        worker.state_of = state_of
    return module
def claim():
    try:
        with open(TOKEN, "x") as file:
            file.write(str(os.getpid()))
        return True
    except FileExistsError:
        return False
builtins.__import__ = lying
"""
LIES = {
    "windows": "state['windows'] = []",
    "errors": "del state['errors']",
    "histogram": "state['latency'] = [b'\\xff\\xff', bytes(8), 0, 0, 0, 0.0, 0.0]",
    "length": "state['length_ns'] = 10 ** 18",
}

for _name, _lie in LIES.items():

    @fault(37, f"lie-{_name}", f"one of two workers lies: `{_lie}`", "its module replaced",
           Expected(kinds=None, fails=Kind.WORKERS, growth_mib=JUDGED_MIB))  # fmt: skip
    def _liar(rig: Rig, lie: str = _lie) -> Seen:
        folder = rig.new_folder()
        text = LIAR.replace("LIE", lie).replace("TOKEN", repr(str(folder / "liar")))
        (folder / "sitecustomize.py").write_text(text)
        return rig.answered(
            *("--workers", "2", "--duration", "4", "--request-rate", "100"),
            command=SERVEMARK,
            received=None,
            environment={"PYTHONPATH": f"{folder}:{CHECKOUT}"},
        )
