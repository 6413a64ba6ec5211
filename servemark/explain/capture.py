"""Runs that are explained: with the server's trace of each request, and its processes watched."""

import contextlib
import glob
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.driver.observers import FILE as STAMPS
from loadgen.kserve.control import Control
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import number_of
from loadgen.targets.http import control_of, server_processes
from servemark import files
from servemark.errors import ResultError, ServerError, parsing
from servemark.explain.document import explanation, setup_of
from servemark.explain.queue import Setup
from servemark.explain.timeline import Machine, Sent, Served, load, save
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.results import directory
from servemark.results.schema.explanation import Explanation
from servemark.results.schema.run import Result
from servemark.runs.in_process import Measure
from servemark.runs.server import server_for
from servemark.telemetry.processes import ProcessWatch

AT_ONCE = 5000
"""Requests in a file; Triton keeps them in memory until then."""
TRACE_ON = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "-1", "log_frequency": str(AT_ONCE)}
TRACE_OFF = {"trace_level": ["OFF"]}
STEPS = ("QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END")
"""Steps of a request in the model, in the order of the columns that are read."""
KEPT = "explained.npz"
"""Everything that an explanation is made of, beside the result."""
MOST_LOST = 0.01
"""Share of answered requests that may lack the server's trace: the slowest 1 % may be among them."""
TOO_FEW = "too few answered requests for a slowest 1 %"
NO_STAMPS = "the run kept no stamps (a full disk, or it ended before it measured)"


def trace_flags(file: Path) -> list[str]:
    """Triton's flags to trace every request of its life into files that begin with this name."""
    settings = [f"triton,file={file}", f"triton,log-frequency={AT_ONCE}", "rate=1", "level=TIMESTAMPS", "count=-1"]
    return [f"--trace-config={setting}" for setting in ["mode=triton", *settings]]


@dataclass(frozen=True)
class Traced:
    """Stamps of requests (ns), a row each in the order of their numbers; 0 where a step has none."""

    numbers: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]


@contextlib.contextmanager
def tracing(control: Control, model: str) -> Iterator[Path]:
    """Have a running Triton trace a model's every request, and yield the file that it names.

    Raises ServerError where it traces nothing, or into no file.
    """
    before = control.trace_settings(model)
    file = str(before.get("trace_file") or "")
    if not file:
        raise ServerError(
            "the server has no file for its trace",
            fix="start it with --trace-config triton,file=/tmp/trace.json, or let servemark start one",
        )
    control.trace_settings(model, TRACE_ON)
    try:
        yield Path(file)
    finally:
        with contextlib.suppress(ServerError):
            # Changed settings make it write what it holds.
            control.trace_settings(model, {key: before[key] for key in TRACE_ON if key in before} or TRACE_OFF)


def read_trace(file: Path) -> Traced:
    """Read what Triton wrote under this name, of requests with our ids. Raises ServerError where it is not a trace.

    Source: Triton's user guide, "Trace" (JSON trace output), and its protocol extension "Trace". Its stamps are of the
    monotonic clock, which the processes of a machine share. Another server's trace is a file like it. The name is a
    server's own word, and may lead to anything.
    """
    requests: dict[int, int] = {}
    stamps: dict[int, list[int]] = {}
    with parsing(f"the server's trace {file}", ServerError):
        for part in sorted(file.parent.glob(f"{glob.escape(file.name)}*")):
            for entry in _entries(part):
                if (number := number_of(str(entry.get("request_id", "")))) is not None and "parent_id" not in entry:
                    requests[entry["id"]] = number
                for stamp in entry.get("timestamps", ()):
                    if stamp["name"] in STEPS:
                        stamps.setdefault(entry["id"], [0] * len(STEPS))[STEPS.index(stamp["name"])] = stamp["ns"]
        found = sorted((number, *stamps[key]) for key, number in requests.items() if key in stamps)
        rows = np.array(found, dtype=np.int64).reshape(-1, 1 + len(STEPS))
    return Traced(rows[:, 0], rows[:, 1:])


def _entries(file: Path) -> list[dict[str, Any]]:
    """Raises OSError, ValueError, RecursionError."""
    found = json.loads(files.text(file, files.DATA_BYTES) or "[]")
    return [entry for entry in found if isinstance(entry, dict) and "id" in entry] if isinstance(found, list) else []


@dataclass(frozen=True)
class _Run:
    """A run with what was read beside it."""

    result: Result
    folder: Path
    machine: Machine
    trace: Path | None
    note: str


@contextlib.contextmanager
def explaining(config: LoadConfig, measure: Measure) -> Iterator[Measure]:
    """Yield what makes a run at the configuration's server; when all have ended, each result has its explanation.

    A server of our own traces from its start, and writes the rest of its trace when it ends. Raises as `server_for`.
    """
    runs: list[_Run] = []
    with scratch_folder("trace") as scratch:
        file = scratch / "trace.json"
        with server_for([config], more=trace_flags(file)) as [served]:

            def watched(each: LoadConfig) -> Result:
                folder = each.result_dir or directory.new_directory(each.out, each.model)
                own = served is not config
                placed = replace(each.at(served.address), result_dir=folder)
                runs.append(_watched(placed, measure, file if own else None))
                return runs[-1].result

            yield watched
        for run in runs:
            _explain(run)


def _watched(config: LoadConfig, measure: Measure, file: Path | None) -> _Run:
    """Make one run beside a watch; a running server's trace is switched on for it."""
    watch, missing = _watch(config)
    with contextlib.ExitStack() as stack:
        if file is None:
            try:
                file = stack.enter_context(tracing(control_of(config), config.model))
            except ServerError as error:
                missing = str(error)
        if watch is not None:
            watch.start()
            stack.callback(watch.stop)
        result = measure(config)
    assert config.result_dir is not None
    machine = Machine.none() if watch is None else Machine(**watch.columns(), cores=os.cpu_count() or 1)
    return _Run(result, config.result_dir, machine, file, missing)


def _watch(config: LoadConfig) -> tuple[ProcessWatch | None, str]:
    """Return a watch of the server's processes, or why there is none."""
    try:
        found = server_processes(config, [config.access.address(config.url)])
    except LookupError as error:
        return None, str(error)
    return (ProcessWatch(found, [os.getpid()]), "") if found else (None, "the server runs on another machine")


def _explain(run: _Run) -> None:
    """Join both sides, keep them, and put the explanation into the result. Says why where there is none."""
    file = run.folder / STAMPS
    try:
        number, due, begun, sent_at, done, good = np.load(file).T
    except (OSError, EOFError, ValueError):
        note(f"no explanation: {NO_STAMPS}")
        return
    try:
        sent = Sent(number, due, begun, sent_at, done, good == 1)
        served, missing = _joined(sent, run)
        save(run.folder / KEPT, sent, served, run.machine)
        file.unlink()
    except OSError as error:
        note(f"no explanation: {error}")
        return
    found = explanation(sent, served, run.machine, _setup(run.result), missing)
    if found is None:
        note(f"no explanation: {TOO_FEW}")
        return
    run.result["explanation"] = found
    directory.write(run.folder, run.result)


def _joined(sent: Sent, run: _Run) -> tuple[Served | None, str]:
    """The server's stamps of the same requests, and what is missing."""
    if run.trace is None or not len(sent.number):
        return None, run.note
    try:
        traced = read_trace(run.trace)
    except ServerError as error:
        return None, str(error)
    # Other runs at the same server have the same numbers, at other times.
    queued, order = traced.stamps[:, 0], np.argsort(sent.number)
    nearest = np.searchsorted(sent.number, traced.numbers, sorter=order)
    place = order[np.minimum(nearest, len(order) - 1)]
    mine = (sent.number[place] == traced.numbers) & (sent.sent[place] > 0)
    mine &= (sent.sent[place] <= queued) & (queued <= sent.done[place])
    if not mine.any():
        return None, "the server has traced no request of this run"
    held = np.zeros((len(sent.number), len(STEPS)), np.int64)
    held[place[mine]] = traced.stamps[mine]
    answered = sent.good & (sent.sent > 0)
    lost = int((held[answered, 0] == 0).sum())
    words = f"{lost:,} of {answered.sum():,} answered requests have no trace of the server's" if lost else ""
    if lost > MOST_LOST * answered.sum():
        return None, f"{words}, so that a cause would be a guess"
    return Served(*held.T), "; ".join(filter(None, [run.note, words]))


def _setup(result: Result) -> Setup:
    setup = setup_of(result.get("model_config"), result["batch_size"])
    return replace(setup, in_flight=result["request"]["limits"]["max_in_flight"])


def explained_again(folder: Path) -> Explanation:
    """Explain a saved run, from what it kept. Raises ResultError."""
    result = directory.read_run(folder)
    file = folder / KEPT
    try:
        sent, served, machine = load(file)
    except (OSError, ValueError, KeyError) as error:
        raise ResultError(
            f"{folder} keeps nothing to explain: {error}", fix="servemark run --explain, or servemark explain WORKLOAD"
        ) from error
    before = result.get("explanation")
    found = explanation(sent, served, machine, _setup(result), before["note"] if before else "")
    if found is None:
        raise ResultError(f"{folder}: {TOO_FEW}", fix="a longer run: --duration")
    if before:
        found["tried"] = before["tried"]
        if "ladder" in before:
            found["ladder"] = before["ladder"]
    return found
