"""Locust's own statistics, in a process of their own: importing Locust replaces threads and sockets in this one."""

import subprocess
import sys
from pathlib import Path

from servemark.paths import CHECKOUT

CASES = Path(__file__).parent / "locust_statistics_cases.py"


def test_what_is_added_together_is_what_events_would_have_made_of_it() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
