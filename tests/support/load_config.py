"""A run's configuration from the flags of a load, without Locust."""

from loadgen.load.load_config import LoadConfig, Lookup, in_zoo
from servemark.documents.flags import parse
from servemark.documents.request import RunRequest


def request_of(workload: str, *flags: str) -> RunRequest:
    """The request that a command line asks for."""
    return parse([f"--model={workload}", *flags])


def config(workload: str = "ranking_tiny", *flags: str, lookup: Lookup = in_zoo) -> LoadConfig:
    return LoadConfig.of(request_of(workload, *flags), lookup)
