"""The user classes of a locustfile: what they set is honoured, or refused with the way to have it."""

from collections.abc import Sequence
from typing import Any

from locust import User
from locust.env import Environment

from servemark.errors import OptionError

_PACE = (
    "is the pace of Locust's own users, and here the load says when requests go out",
    ("leave it out; --request-rate N for a rate, --concurrency N for connections that are always busy"),
)
_SHARE = (
    "shares out Locust's own users, and a run drives one model",
    ("leave it out; --model NAME chooses, and `servemark run A=0.7,B=0.3` drives a mix"),
)
_TASKS = (
    "sends requests that no figure and no verdict here would count",
    ("leave it out; requests of your own are `samples` of a workload, or a Locust of their own beside this one"),
)
_MODEL = "is not read", 'own = get("{value}"), with `from servemark.workload import get`'
REFUSED = {
    **dict.fromkeys(("wait_time", "min_wait", "max_wait", "wait_function"), _PACE),
    **dict.fromkeys(("weight", "fixed_count"), _SHARE),
    **dict.fromkeys(("tasks", "be_driven"), _TASKS),
    **dict.fromkeys(("workload", "model"), _MODEL),
}
"""Attribute -> why it cannot be honoured, and what does what is meant."""


def host_of(environment: Environment, base: type[User]) -> str:
    """Check a locustfile's classes, which are of this base, and return the host to load. Raises OptionError."""
    if environment.shape_class is not None:
        name = type(environment.shape_class).__name__
        raise OptionError(
            f"the load of {name} (LoadTestShape) would not be followed", fix='leave it out; --stages "10:100,10:400"'
        )
    for user_class in environment.user_classes:
        _check(user_class, base)
    options: Any = environment.parsed_options  # None only where Locust is a library
    given: str = options.host or ""
    return given if given or getattr(options, "serve", False) else _host(environment.user_classes)


def _check(user_class: type[User], base: type[User]) -> None:
    """Refuse what a class sets that would be ignored. Raises OptionError."""
    name = user_class.__name__
    if not issubclass(user_class, base):
        why, fix = _TASKS
        raise OptionError(f"{name} is a user of Locust's own, which {why}", fix=fix)
    for attribute, (why, fix) in REFUSED.items():
        value = getattr(user_class, attribute, None)
        if value != getattr(base, attribute, None):
            raise OptionError(f"{name}.{attribute} {why}", fix=fix.format(value=value))


def _host(user_classes: Sequence[type[User]]) -> str:
    """Return the one host that the classes name, "" for none. Raises OptionError."""
    hosts = sorted({user_class.host for user_class in user_classes if user_class.host})
    if len(hosts) > 1:
        raise OptionError(f"the classes of the locustfile name {' and '.join(hosts)}", fix="-H HOST chooses")
    return hosts[0] if hosts else ""
