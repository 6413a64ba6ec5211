"""A trace of arrivals: the user's own production traffic, read from CSV or JSON lines."""

import csv
import hashlib
import io
import itertools
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import InputDataError, parsing
from servemark.quantities import INT64
from servemark.results.schema.run import TraceLoad

TIMES, SAMPLE = ("time_s", "time", "timestamp"), "sample"
"""Names that the time may have, and that of the sample."""
MAX_DURATION_S = 7 * 86400.0
UNIX_UNITS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (10**8, 10**9))
"""From these numbers on (1973 in each unit) a time is Unix time in ns, us, ms or s, each with its ns; below it not."""
MAX_ARRIVALS = 20_000_000
MAX_QUOTED = 16
"""Characters of a line that an error shows: enough to find it, too few to read a file that is not a trace."""
SPARSE_S = 5
"""Arrivals in whole numbers that are this far apart in the mean are asked about: 200/s and less, if they are in ms."""
JSON_LINES = (".jsonl", ".ndjson", ".json")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAME = "name a CSV or JSONL file of arrival times"
KINDS = "seconds from the start, Unix time or ISO 8601"


@dataclass(frozen=True)
class Trace:
    """Arrival times in seconds from the start as they are played, ascending, and perhaps each one's sample."""

    digest: str
    times_s: npt.NDArray[np.float64] = field(repr=False, compare=False)
    samples: npt.NDArray[np.int64] | None = field(repr=False, compare=False)
    first: datetime | None = None
    """When the first arrival came, where the file has calendar times: they count from it."""

    @property
    def duration_s(self) -> float:
        """Up to the whole second after the last arrival."""
        return math.floor(float(self.times_s[-1])) + 1.0

    @property
    def rate(self) -> float:
        """Mean requests/s."""
        return len(self.times_s) / self.duration_s

    @property
    def may_be_milliseconds(self) -> bool:
        """Tell whether it lasts much longer than its count suggests: arrivals in whole numbers far apart."""
        if self.first is not None or len(self.times_s) < 2:
            return False
        are_whole = bool((self.times_s % 1 == 0).all())
        return self.duration_s >= len(self.times_s) * (SPARSE_S if are_whole else 1000)

    def to_dict(self) -> TraceLoad:
        """As result.json holds it; the digest tells whether another run had the same trace."""
        return {
            "sha256": self.digest,
            "arrivals": len(self.times_s),
            "samples": self.samples is not None,
            "first": None if self.first is None else self.first.isoformat(timespec="milliseconds"),
        }


def read_trace(path: Path, speed: float = 1.0) -> Trace:
    """Read a trace; `speed` is how many times as fast it is played. Raises InputDataError naming file and line.

    CSV: the arrival time first, then if given the index of its sample in the input data; or with a header, a column of
    TIMES and `sample` among others. JSON lines: a time, or an object with these names, in each line. A time is in
    seconds from the trace's start, or a calendar time: those count from the first arrival.
    """
    try:
        content = files.content(path, files.DATA_BYTES)
        files.decoded(content)
    except OSError as error:
        raise InputDataError(f"--arrival-trace {path} cannot be read: {error.strerror}", fix=NAME) from None
    except files.NotTextError as error:
        raise InputDataError(f"--arrival-trace {path} is not a text: {error}", fix=error.fix) from None
    with parsing(f"--arrival-trace {path}", InputDataError, fix=NAME):
        trace = _trace(path, content, speed)
    if trace.duration_s > MAX_DURATION_S:
        raise InputDataError(f"--arrival-trace {path} lasts {trace.duration_s:,.0f} s, more than a week", fix="cut it")
    return trace


def _trace(path: Path, content: bytes, speed: float) -> Trace:
    json_lines = path.suffix in JSON_LINES
    lines = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="\n" if json_lines else "")
    rows = _json_rows(path, lines) if json_lines else _csv_rows(path, lines)
    times: list[Decimal] = []
    samples: list[int] = []
    calendar = False
    for line, value, sample in rows:
        time, dated = _time(path, line, value)
        if not times:
            calendar = dated
        elif dated != calendar:
            _fail(path, line, f"{_quoted(value)} is {'a' if dated else 'no'} calendar time, unlike those before it")
        elif time < times[-1]:
            before = float(times[-1] - time) / (1e9 if calendar else 1)
            _fail(path, line, f"{_quoted(value)} is {before:.3g} s before the last: sort the arrivals by time")
        times.append(time)
        if len(times) > MAX_ARRIVALS:
            raise InputDataError(f"--arrival-trace {path} has more than {MAX_ARRIVALS:,} arrivals", fix="cut it")
        if sample is not None:
            samples.append(_sample(path, line, sample))
        if len(samples) not in (0, len(times)):
            _fail(path, line, f"{SAMPLE!r} is given for some arrivals and missing for others")
    if not times:
        raise InputDataError(f"--arrival-trace {path} holds no arrival", fix="give one arrival time in each line")
    digest = hashlib.sha256(content).hexdigest()
    # From the first on in whole ns: of a float of Unix time the last 200 ns are rounding.
    seconds = [float(time - times[0]) / 1e9 for time in times] if calendar else list(map(float, times))
    first = datetime.fromtimestamp(float(times[0]) / 1e9, UTC) if calendar else None
    return Trace(digest, np.array(seconds) / speed, np.array(samples, np.int64) if samples else None, first)


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def _csv_rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, Any, Any]]:
    """(line, time, sample or None) of each row."""
    reader = csv.reader(lines)
    rows: Iterator[tuple[int, list[str]]] = ((reader.line_num, row) for row in reader if row)
    columns = [TIMES[0], SAMPLE]
    first = next(rows, None)
    if first is None:
        return
    line, row = first
    if _read_time(row[0]) is not None:
        rows = itertools.chain([first], rows)
    else:
        columns = [name.strip() for name in row]
        if not set(TIMES) & set(columns):
            _fail(path, line, f"the header has no column {' or '.join(TIMES)}: {_quoted(', '.join(columns))}")
    time_at = next(columns.index(name) for name in TIMES if name in columns)
    sample_at = columns.index(SAMPLE) if SAMPLE in columns else None
    for line, row in rows:
        if len(row) > len(columns) or len(row) <= time_at:
            _fail(path, line, f"{len(row)} values, {len(columns)} at most are expected; name more with a header")
        yield line, row[time_at], row[sample_at] if sample_at is not None and len(row) > sample_at else None


def _json_rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, Any, Any]]:
    """(line, time, sample or None) of each line."""
    for line, text in enumerate(map(str.strip, lines), start=1):
        if not text:
            continue
        try:
            value = json.loads(text, parse_float=Decimal)
        except ValueError:
            _fail(path, line, f"{_quoted(text)} is not JSON")
        if isinstance(value, dict):
            name = next((name for name in TIMES if name in value), None)
            if name is None:
                _fail(path, line, f"no {' or '.join(TIMES)} in {_quoted(text)}")
            yield line, value[name], value.get(SAMPLE)
        else:
            yield line, value, None


def _time(path: Path, line: int, value: Any) -> tuple[Decimal, bool]:
    """A time in seconds, or a calendar time in ns, and whether it is one."""
    found = _read_time(value)
    if found is None:
        _fail(path, line, f"{_quoted(value)} is not a time: {KINDS}")
    time, calendar = found
    if time < 0:
        _fail(path, line, f"{time:g} s is negative")
    if time > MAX_DURATION_S and not calendar:
        _fail(path, line, f"{time:g} s is more than a week: give {KINDS}; milliseconds are divided by 1,000")
    return found


def _read_time(value: Any) -> tuple[Decimal, bool] | None:
    """A time in seconds, or a calendar time in ns, and whether it is one; None where it is not a time."""
    if (number := _number(value)) is not None:
        unit = next((unit for least, unit in UNIX_UNITS if number >= least), None)
        return (number, False) if unit is None else (number * unit, True)
    try:
        found = datetime.fromisoformat(value.strip())
        since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH
        return Decimal(since // timedelta(microseconds=1) * 1000), True
    except (AttributeError, ValueError, OverflowError):
        return None


def _sample(path: Path, line: int, value: Any) -> int:
    number = _number(value)
    if number is None or not 0 <= number <= INT64 or number % 1:
        _fail(path, line, f"{_quoted(value)} is not an index of a sample (0, 1, 2, ...)")
    return int(number)


def _number(value: Any) -> Decimal | None:
    """Read a finite number as it is written; None where it is not one."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    try:
        found = Decimal(value)
        return found if math.isfinite(float(found)) else None
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _fail(path: Path, line: int, what: str) -> NoReturn:
    raise InputDataError(f"{path}:{line}: {what}")
