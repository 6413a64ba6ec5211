"""The document of a run that is to go on. A folder may be damaged, or somebody else's: nothing in it is trusted."""

from pathlib import Path

from kernels.libraries import libraries
from kernels.measurement.precisions import PRECISIONS
from servemark.errors import OptionError, ResultError
from servemark.quantities import one_of
from servemark.results import directory as results
from servemark.results.schema.kernels import Ceiling, KernelsDocument

MAX_LIMIT_S = 86_400.0
MAX_BATCH = 1 << 20
ANEW = "start a new run, without --resume"


def resumed(folder: Path) -> KernelsDocument:
    """Read a run that was cut short. Raises ResultError, and OptionError where it is none, is whole or is damaged."""
    file = folder / results.RESULT_FILE
    document = results.read_as(file, KernelsDocument)
    if not document["partial"]:
        raise OptionError(f"{folder} is whole: {document['planned']} cases", fix=f"servemark show {folder}")
    if words := _nonsense(document):
        raise ResultError(f"{file} is damaged: {words}", fix=ANEW)
    for name in document["precisions"]:
        one_of("precision", name, PRECISIONS)
    for name in document["libraries"]:
        one_of("library", name, libraries())
    return document


def _nonsense(document: KernelsDocument) -> str | None:
    """Find values of the right type that no run has written."""
    for key in ("precisions", "libraries", "families"):
        if not document[key] or len({*document[key]}) < len(document[key]):
            return f"{key} are {document[key]}"
    if not 0 < document["case_limit_s"] <= MAX_LIMIT_S:
        return f"case_limit_s is {document['case_limit_s']:g}"
    if document["spent_s"] < 0:
        return f"spent_s is {document['spent_s']:g}"
    traced = document["traced"]
    if traced and not 0 < traced["batch_size"] <= MAX_BATCH:
        return f"batch_size is {traced['batch_size']}"
    names = [ceiling["precision"] for ceiling in document["ceilings"]]
    if len({*names}) < len(names):
        return f"ceilings are of {names}"
    return next((words for ceiling in document["ceilings"] if (words := _impossible(ceiling))), None)


def _impossible(ceiling: Ceiling) -> str | None:
    """Find a rate that nothing can have: cases are divided by it."""
    steps = ceiling["bandwidths"]
    rates = [ceiling["tflops"], ceiling["call_us"], *(each["gbps"] for each in steps)]
    if not steps or min(rates) <= 0 or min(each["mib"] for each in steps) <= 0:
        return f"a ceiling of {ceiling['precision']} is not positive, or is missing"
    if [each["mib"] for each in steps] != sorted(each["mib"] for each in steps):
        return f"bandwidths of {ceiling['precision']} are not in order"
    return None
