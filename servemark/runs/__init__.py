"""One run as a process, with its server. Knows no command line.

`server_for` yields configurations at a server of their models, `drive` makes a run of one and returns its result.
"""

from loadgen.load.load_config import LoadConfig
from servemark.runs.locust_process import drive
from servemark.runs.mix import run_mix
from servemark.runs.mlperf import run_mlperf
from servemark.runs.server import server_for
from servemark.runs.suite import run_suite

__all__ = ["LoadConfig", "drive", "run_mix", "run_mlperf", "run_suite", "server_for"]
