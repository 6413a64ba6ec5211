"""A run's configuration from the load flags, without Locust."""

from argparse import ArgumentParser, Namespace

from loadgen.load.flags import add_arguments
from loadgen.load.load_config import LoadConfig, Lookup, in_zoo


def parsed(workload: str, *flags: str) -> Namespace:
    """The flags as Locust's parser hands them over."""
    parser = ArgumentParser()
    add_arguments(parser, [workload], locust=False)
    return parser.parse_args(flags)


def config(workload: str = "ranking_tiny", *flags: str, lookup: Lookup = in_zoo) -> LoadConfig:
    return LoadConfig.from_options(parsed(workload, *flags), lookup)
