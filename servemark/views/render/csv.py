"""One row a result, for a spreadsheet: figures have their unit in the column's name."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from servemark.output import printable
from servemark.results.saved import Saved
from servemark.views.kinds import kind_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A cell that begins so is a formula to a spreadsheet (OWASP, "CSV Injection")."""
CIRCUMSTANCES = ("hostname", "cpu", "cores", "git_commit", "git_dirty")
"""Columns of the machine and the code, beside its GPUs."""


def to_csv(documents: Sequence[Saved]) -> str:
    """The rows of all documents under all their columns. Raises KeyError, TypeError where one is damaged."""
    rows = [row for saved in documents for row in rows_of(saved)]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writerow({column: _cell(column) for column in columns})  # a suite's are keys of its document
    writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
    return text.getvalue()


def rows_of(saved: Saved) -> list[dict[str, Any]]:
    """The records of a document between its name and the machine."""
    around: Mapping[str, Any] = saved.document["environment"]
    begin = {"result": saved.name, "kind": saved.kind, "created_utc": saved.document.get("created")}
    end = {key: around.get(key) for key in CIRCUMSTANCES}
    end["gpus"] = ", ".join(gpu["name"] for gpu in around.get("gpus") or [])
    return [{**begin, **record, **end, **record} for record in kind_of(saved).records(saved)]


def _cell(value: Any) -> Any:
    """A number as it is; words on one line, and never a formula."""
    if not isinstance(value, str):
        return value
    words = printable(value).replace("\n", " ").replace("\t", " ")
    return f"'{words}" if value.startswith(_FORMULA) else words
