"""A request as the commands that measure resolve it."""

from loadgen.inputs.sources import samples_of, scorable
from loadgen.load.load_config import LoadConfig
from loadgen.targets.open import workload_of
from servemark.documents.request import RunRequest


def resolved(request: RunRequest, *, scored: bool = False) -> LoadConfig:
    """Resolve a request, and read the first sample of its data. Raises OptionError, InputDataError, ServerError.

    A model is exported and served only after that, because both take minutes. `scored` leaves the data to a caller
    that reads its labels.
    """
    config = LoadConfig.of(request, workload_of)
    if config.quality:
        scorable(config, 1)
    elif not scored:
        samples_of(config)
    return config
