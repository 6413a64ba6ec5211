"""A run's configuration from the load flags, without Locust."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from loadgen.load.flags import add_arguments
from loadgen.load.load_config import LoadConfig
from servemark.workload import Workload, get


def parsed(workload: str, *flags: str) -> Namespace:
    """The flags as Locust's parser hands them over."""
    parser = ArgumentParser()
    add_arguments(parser, [workload], locust=False)
    return parser.parse_args(flags)


def config(workload: str = "ranking_tiny", *flags: str, lookup: Callable[[str], Workload] = get) -> LoadConfig:
    return LoadConfig.from_options(parsed(workload, *flags), lookup)
