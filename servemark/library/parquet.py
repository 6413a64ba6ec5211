"""The two tables of a result, its requests and its series: their columns in every format, and their Parquet files.

pyarrow is loaded when one is read or written.
"""

import importlib.util
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import ResultError, parsing
from servemark.results import directory


class Column(NamedTuple):
    """One column of a table. CSV has nothing where a value is null."""

    name: str
    type: Literal["int64", "double", "string", "bool"]
    description: str
    nullable: bool = False


REQUESTS = (
    Column("scheduled_ns", "int64", "When the request was due, from the start of the measured interval (ns)."),
    Column("sent_ns", "int64", "When it was sent (ns). Null: it never was.", nullable=True),
    Column("done_ns", "int64", "When its answer was there, or when it failed (ns)."),
    Column("error", "string", "Kind of the failure. Null: it succeeded.", nullable=True),
)

SERIES = (
    Column("source", "string", "`windows` of `result.json`, or a source of `series.json`: machine, triton, ..."),
    Column("name", "string", "Name of the figure there, with its unit."),
    Column("unit", "string", "Its unit; empty where the name says all."),
    Column("labels", "string", "Which one of several, as a JSON object."),
    Column("counter", "bool", "True: it only grows."),
    Column("time_s", "double", "Start of the window, or time of the reading, from the start of the interval (s)."),
    Column("value", "double", "The figure. Null: it is not known.", nullable=True),
    Column("reason", "string", "Why values of this series are null. Null: none is.", nullable=True),
)


class Words(NamedTuple):
    """A column of few different words: the number of its word for each row."""

    codes: npt.NDArray[np.int32]
    words: Sequence[str]


Values = npt.NDArray[Any] | Words
"""Values of a column. A null is NaN in numbers, and the empty word."""


def usable(file: Path, instead: Path) -> bool:
    """Return True if a table is to be read from its Parquet file: where there is one, and a reader or no other file."""
    return file.is_file() and (importlib.util.find_spec("pyarrow") is not None or not instead.is_file())


def write(file: Path, columns: Sequence[Column], values: Mapping[str, Values]) -> None:
    """Write a table whole or not at all. Raises ResultError."""
    arrow, parquet = _modules(file)
    fields = [
        arrow.field(each.name, _type(arrow, each), each.nullable, {"description": each.description}) for each in columns
    ]
    arrays = [_to_arrow(arrow, each, values[each.name]) for each in columns]
    whole = io.BytesIO()
    parquet.write_table(arrow.table(arrays, arrow.schema(fields)), whole, compression="zstd")
    directory.write_atomically(file, whole.getvalue())


def read(file: Path, columns: Sequence[Column]) -> dict[str, Values]:
    """Read the columns of a table. Raises ResultError."""
    arrow, parquet = _modules(file)
    with parsing(file, ResultError, fix="write it anew: servemark report RESULT --format parquet"):
        with files.opened(file) as source:
            table = parquet.read_table(source, columns=[each.name for each in columns])
        return {each.name: _from_arrow(arrow, each, table.column(each.name)) for each in columns}


def _modules(file: Path) -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ResultError(f"{file.name} needs pyarrow: {error}", fix="pip install 'servemark[parquet]'") from error
    return pyarrow, pyarrow.parquet


def _type(arrow: Any, column: Column) -> Any:
    if column.type == "string":
        return arrow.dictionary(arrow.int32(), arrow.string())
    return {"int64": arrow.int64(), "double": arrow.float64(), "bool": arrow.bool_()}[column.type]


def _to_arrow(arrow: Any, column: Column, values: Values) -> Any:
    if isinstance(values, Words):
        empty = np.array([not word for word in values.words], dtype=bool)[values.codes] if column.nullable else None
        return arrow.DictionaryArray.from_arrays(arrow.array(values.codes, arrow.int32(), mask=empty), values.words)
    unknown = np.isnan(values) if column.nullable else None
    if unknown is not None and column.type == "int64":
        values = np.where(unknown, 0, values).astype(np.int64)
    return arrow.array(values, _type(arrow, column), mask=unknown)


def _from_arrow(arrow: Any, column: Column, chunks: Any) -> Values:
    if column.type == "string":
        whole = chunks.cast(arrow.string()).fill_null("").combine_chunks().dictionary_encode()
        return Words(whole.indices.to_numpy(), whole.dictionary.to_pylist())
    if chunks.null_count and not column.nullable:
        raise ValueError(f"{column.name} has nulls")
    number = arrow.float64() if column.nullable else _type(arrow, column)
    found: npt.NDArray[Any] = chunks.cast(number).to_numpy()
    return found
