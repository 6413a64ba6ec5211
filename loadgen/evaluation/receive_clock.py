"""The clock that told when the answers of a run came, and how late requests left after the process sent them."""

from loadgen.measurement.recorder import Recorder
from servemark.results.schema.metrics import BOTH, KERNEL, PROCESS, ClockFigures
from servemark.stats.histogram import Latency
from servemark.stats.unknown import explained, unknown, unknown_group

MAX_UNSTAMPED_SHARE = 0.01
"""Up to this share of readings without a stamp that holds, a run counts as timed by the kernel."""
_NO_NETWORK = "no answer came over a network: the model ran in this process"
_NO_STAMPS = "the kernel stamped no request: Unix sockets have no stamps, and some containers and systems give none"


def receive_clock(recorder: Recorder) -> str:
    """Name the clock of the answers' times: the kernel's, the process's, or both where stamps were missing at times."""
    clock = recorder.clock
    if clock is None or clock.missing >= recorder.answered:
        return PROCESS
    return KERNEL if clock.missing + clock.refused <= MAX_UNSTAMPED_SHARE * recorder.answered else BOTH


@explained
def clock_figures(recorder: Recorder) -> ClockFigures:
    """Describe the clock for a result."""
    clock = recorder.clock
    if clock is None:
        none = _no_sends(_NO_NETWORK)
        return {"receive": PROCESS, "unstamped": unknown(_NO_NETWORK), "refused": 0, "steps": 0, "send_error_ms": none}
    return {
        "receive": receive_clock(recorder),
        "unstamped": clock.missing,
        "refused": clock.refused,
        "steps": clock.steps,
        "send_error_ms": clock.send_error.summary() if clock.send_error.count else _no_sends(_NO_STAMPS),
    }


def _no_sends(reason: str) -> Latency:
    return {**unknown_group(Latency, reason), "count": 0, "failed": 0, "ci95": {}}
