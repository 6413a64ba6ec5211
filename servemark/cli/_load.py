"""A request as the commands that measure resolve it."""

from loadgen.inputs.labels import scorable
from loadgen.load.load_config import LoadConfig
from loadgen.targets.any_model import workload_of
from servemark.documents.request import RunRequest


def resolved(request: RunRequest) -> LoadConfig:
    """Resolve a request. Raises OptionError, InputDataError, ServerError."""
    config = LoadConfig.of(request, workload_of)
    if config.quality:
        scorable(config, 1)
    return config
