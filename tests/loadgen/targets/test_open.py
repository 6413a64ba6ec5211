"""Freed memory is kept: the pages of one large response are those of the next."""

import subprocess
import sys

BYTES, RESPONSES = 602_112, 200
SCRIPT = f"""
import resource, sys
from loadgen.targets.open import tune_malloc

def respond():
    pieces = [bytes(60_000) for _ in range(10)]
    return b"".join([*pieces, bytes({BYTES} - 600_000)])

if sys.argv[1] == "kept":
    assert tune_malloc()
for _ in range(20):
    respond()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({RESPONSES}):
    respond()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_large_responses_fault_no_new_pages_in() -> None:
    def faults(mode: str) -> int:
        done = subprocess.run([sys.executable, "-c", SCRIPT, mode], capture_output=True, check=True, timeout=120)
        return int(done.stdout)

    assert faults("kept") < RESPONSES  # a response has 147 pages
