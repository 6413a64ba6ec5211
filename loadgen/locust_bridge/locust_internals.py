"""Locust's internals, as read in Locust 2.47.0, where it has no public interface. An upgrade has this file to check."""

import functools
from collections.abc import Callable
from typing import Any

from locust import argument_parser
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from servemark.errors import ExitCode


def leave_with_own_code(parser: LocustArgumentParser) -> None:
    """Have a bad flag end Locust with its own code (`parser.exit`): argparse's, 2, is ours of an invalid run."""
    leave = parser.exit
    parser.exit = lambda status=0, message=None: leave(int(ExitCode.LOCUST) if status else 0, message)


def remember_default_options() -> None:
    """Have Locust make its parser once (`argument_parser.default_args_dict`).

    It makes one for each option of each spawn message. These also come whenever another worker joins or leaves: half a
    second in which no request would go out.
    """
    vars(argument_parser)["default_args_dict"] = functools.cache(argument_parser.default_args_dict)


def request_listeners(environment: Environment) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """Return the listeners of Locust's request event (`EventHook._handlers`), a list that grows, and Locust's own."""
    listeners: list[Callable[..., Any]] = environment.events.request._handlers
    return listeners, [each for each in listeners if getattr(each, "__module__", "") == "locust.runners"]
