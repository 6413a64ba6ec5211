"""The user class that a locustfile subclasses; importing this module adds our flags and listeners to Locust."""

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import gevent
from locust import User, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from loadgen.locust_bridge.locust_internals import (
    adapt_tables,
    leave_with_own_code,
    watch_on_without_descriptors,
)
from loadgen.locust_bridge.session import Session, WorkerSession, add_own_arguments
from loadgen.targets.open import workload_of
from servemark import interrupts
from servemark.documents.flags import locust_arguments
from servemark.documents.request import RunRequest
from servemark.errors import ExitCode, OptionError, ServemarkError, require_address_space
from servemark.output import NOTES, SAYS, stderr
from servemark.workload import Workload, workloads

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
_sessions: dict[int, Session | WorkerSession] = {}
_started_early: set[int] = set()
"""Environments of workers that the master has started before Locust has initialised them."""


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


class InferenceUser(User):
    """Stands for one connection that the closed loop keeps busy; the driver sends the requests of all of them.

    A subclass can drive the workloads whose `locustfile` is the name of its file, or the one that it names itself. One
    that drives a model of the user's own gives its `Workload` as `own` instead. `host` is the server without `-H`;
    `on_start` and `on_stop` run once for each of Locust's users. What else Locust knows is refused with words.
    """

    abstract = True
    locustfile: ClassVar[str] = ""
    own: ClassVar[Workload | None] = None

    @classmethod
    def models(cls) -> list[str]:
        """The workloads of this task; the first is the default."""
        if cls.own is not None:
            return [cls.own.name]
        locustfile = cls.locustfile or cls.__module__.rpartition(".")[2]
        return [name for name, workload in workloads().items() if Path(workload.locustfile).name == locustfile]

    @task
    def be_driven(self) -> None:
        """Nothing of its own: see loadgen/driver/event_loop.py."""
        gevent.sleep(1)


def _classes(base: type[InferenceUser] = InferenceUser) -> Iterator[type[InferenceUser]]:
    """The classes of the locustfile, those that extend one of its own included."""
    for user_class in base.__subclasses__():
        yield user_class
        yield from _classes(user_class)


def _models() -> list[str]:
    return list(dict.fromkeys(model for user_class in _classes() for model in user_class.models()))


def _lookup(request: RunRequest) -> Workload:
    """Find a workload: a locustfile's own before the zoo's and the server's. Raises OptionError, ServerError."""
    own = {user_class.own.name: user_class.own for user_class in _classes() if user_class.own}
    return own.get(request.workload) or workload_of(request)


def _add_arguments(parser: LocustArgumentParser, **_: Any) -> None:
    try:
        require_address_space()
        # Before Locust forks its workers: they have the code then, and import nothing while their heartbeats are due.
        with contextlib.suppress(ServemarkError):
            workloads()
        for option, settings in locust_arguments(_models()):
            parser.add_argument(option.spelled, **settings)
    except ServemarkError as error:  # a workload file of the user's, or a limit of memory
        stderr.print(f"servemark: {error}", style="red")
        sys.exit(int(error.exit_code))
    add_own_arguments(parser)
    # Locust's web UI and master listen on all interfaces unless told otherwise; ours on loopback.
    parser.set_defaults(web_host="127.0.0.1", master_bind_host="127.0.0.1")
    leave_with_own_code(parser)


def _init(environment: Environment, **_: Any) -> None:
    interrupts.install()
    os.environ.setdefault(SAYS, NOTES)
    worker = isinstance(environment.runner, WorkerRunner)
    session = WorkerSession(environment, _lookup) if worker else Session(environment, _lookup)
    try:
        assert environment.parsed_options is not None  # it is where Locust is used as a library
        environment.parsed_options.host = host_of(environment, InferenceUser)
        session.begin()
    except ServemarkError as error:
        stderr.print(f"servemark: {error}", style="red")
        _leave(environment, session, error.exit_code)
    except KeyboardInterrupt:
        _leave(environment, session, ExitCode.INVALID)
    _sessions[id(environment)] = session
    # After Locust's own, and called before them: a worker reports before it takes its leave.
    environment.events.quitting.add_listener(_quitting)
    gevent.spawn(_hear_signals, environment)
    if id(environment) in _started_early:
        session.start()


def _hear_signals(environment: Environment) -> None:
    """Hand a signal to Locust's main greenlet, where that waits, as the Ctrl-C at which it ends."""
    while not interrupts.requested():
        gevent.sleep(interrupts.POLL_S)
    session = _sessions.get(id(environment))
    if session is None:
        return  # Locust is ending
    if isinstance(environment.runner, MasterRunner) and environment.web_ui is None and session.greenlet is None:
        # It waits for its workers, and leaves them behind at a Ctrl-C.
        _leave(environment, session, ExitCode.INVALID)
    gevent.get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())


def _leave(environment: Environment, session: Session | WorkerSession, code: ExitCode) -> NoReturn:
    """End Locust where no test was started; the workers that have come go home."""
    session.close()
    if isinstance(environment.runner, MasterRunner):
        environment.runner.quit()
    sys.exit(int(code))


def _test_start(environment: Environment, **_: Any) -> None:
    session = _sessions.get(id(environment))
    if session is None:
        _started_early.add(id(environment))
    else:
        session.start()


def _test_stopping(environment: Environment, **_: Any) -> None:
    session = _sessions.get(id(environment))
    if session is not None:  # None: Locust is quitting, which has stopped it already
        session.stop()


def _quitting(environment: Environment, **_: Any) -> None:
    session = _sessions.pop(id(environment), None)
    if session is not None:
        session.close()


interrupts.end_with_owner()
adapt_tables()
watch_on_without_descriptors()
# Locust leaves a process that it forks (--processes) behind, looking for its master for a minute or five. What that
# has measured has been sent by then.
os.register_at_fork(after_in_child=functools.partial(interrupts.end_with_parent, signal.SIGKILL))
events.init_command_line_parser.add_listener(_add_arguments)
events.init.add_listener(_init)
events.test_start.add_listener(_test_start)
events.test_stopping.add_listener(_test_stopping)
