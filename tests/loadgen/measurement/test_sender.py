"""Other greenlets, and their sockets, have their turn."""

import subprocess
import sys

CONVERSATION = """
import gevent.monkey; gevent.monkey.patch_all()
import os, gevent
from gevent.os import nb_read
from loadgen.measurement.sender import give_way

STEPS = 10
ours, theirs = os.pipe()
os.set_blocking(ours, False)
heard = []
def listen():
    for _ in range(STEPS):
        heard.append(nb_read(ours, 1))     # waits for the socket, as reading a server's counters does

listener = gevent.spawn(listen)
turns = 0
while not listener.dead and turns < 1000:
    if turns % 2 == 0:
        os.write(theirs, b"x")             # what it waits for comes in every second turn
    give_way()
    turns += 1
print(len(heard), turns)
"""


def test_a_greenlet_that_waits_for_a_socket_goes_on_in_the_turn_after_it_was_written_to() -> None:
    done = subprocess.run([sys.executable, "-c", CONVERSATION], capture_output=True, text=True, timeout=60, check=True)
    steps, turns = map(int, done.stdout.split())
    assert steps == 10
    assert turns <= 2 * steps + 2
