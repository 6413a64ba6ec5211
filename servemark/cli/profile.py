"""`servemark profile`: where the time of one inference goes, and the memory, on each engine."""

from servemark.cli._report import conclude
from servemark.documents.commands.understand import Profile
from servemark.errors import ExitCode
from servemark.profiling.engines import profilers
from servemark.profiling.run import installed, refusal
from servemark.profiling.run import profile as run
from servemark.quantities import one_of
from servemark.workload import get


def profile(options: Profile) -> int:
    """Profile a workload; the exit code."""
    get(options.workload)
    engines = [one_of("--engine", name, profilers()) for name in options.engine] or installed(options.device)
    for name in engines:
        if error := refusal(name, options.device):
            raise error
    directory, document = run(options, engines)
    conclude(directory, document, options)
    left_out = document["partial"] or any(each["latency_ms"] is None for each in document["engines"])
    return int(ExitCode.INVALID if left_out else ExitCode.VALID)
