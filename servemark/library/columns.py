"""The columns of a result's two tables, its requests and its series, in every format: name, type, meaning."""

from typing import Literal, NamedTuple


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
