"""A run's configuration from the load flags, without Locust."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from loadgen.load.load_config import LoadConfig, add_arguments
from servemark.workload import Workload, get


class Parser(ArgumentParser):
    """Takes Locust's own keyword without importing Locust."""

    def add_argument(self, *names: str, include_in_web_ui: bool = True, **options: Any) -> Any:
        del include_in_web_ui
        return super().add_argument(*names, **options)


def parsed(workload: str, *flags: str) -> Namespace:
    """The flags as Locust's parser hands them over."""
    parser = Parser()
    parser.add_argument("--users", dest="num_users", default=None)
    parser.add_argument("--host", default=None)
    add_arguments(parser, [workload])
    return parser.parse_args(["--model", workload, *flags])


def config(workload: str = "ranking_tiny", *flags: str, lookup: Callable[[str], Workload] = get) -> LoadConfig:
    return LoadConfig.from_options(parsed(workload, *flags), lookup)
