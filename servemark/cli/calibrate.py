"""`servemark calibrate`: how wrong a load generator is, against a server whose delays are known."""

from loadgen.peers.programs import Peer
from servemark.calibration.cases import CASES
from servemark.calibration.measure import METERS, OWN
from servemark.calibration.run import calibrate as run
from servemark.calibration.run import in_time
from servemark.cli._report import conclude
from servemark.documents.commands.understand import Calibrate
from servemark.errors import ExitCode, OptionError
from servemark.output import note
from servemark.quantities import one_of

ALL, NONE = "all", "none"


def calibrate(options: Calibrate) -> int:
    """Calibrate the generators; the exit code."""
    names = [case.name for case in CASES]
    wanted = names if options.cases == ALL else _names("--cases", options.cases, names)
    cases = [case for case in CASES if case.name in wanted]
    chosen = _chosen(options.peers)
    meters = chosen if options.full or options.peers != ALL else in_time(cases, chosen)
    if left := [meter.name for meter in chosen if meter not in meters]:
        note(f"left out, to end within 4 minutes: {', '.join(left)} (--full, or --peers, takes them)")
    directory, document = run(options, cases, meters)
    conclude(directory, document, options)
    return document["verdict"]["exit_code"] if document["verdict"] else int(ExitCode.INVALID)


def _chosen(peers: str) -> list[Peer]:
    """Servemark by both clocks, and the others that are asked for. Raises OptionError where one is not installed."""
    installed = {name: meter for name, meter in METERS.items() if meter.program}
    if peers == ALL:
        return [*installed.values()]
    wanted = [] if peers == NONE else _names("--peers", peers, [name for name in METERS if name not in OWN])
    for name in wanted:
        if name not in installed:
            raise OptionError(f"--peers: {name} is not on PATH", fix=METERS[name].install)
    return [installed[name] for name in (*OWN, *wanted)]


def _names(flag: str, given: str, choices: list[str]) -> list[str]:
    return [one_of(flag, name, choices) for name in given.split(",")]
