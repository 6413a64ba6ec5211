"""`servemark data`: list the data sets, and fetch one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from servemark import interrupts
from servemark.documents.commands.prepare import Data
from servemark.output import stdout
from servemark.results.directory import print_json

FETCHED, BROUGHT = "servemark data {}", "lay it out yourself"
UNCONFIRMED = "*"


def data(options: Data) -> None:
    """Fetch a data set, or list them."""
    from servemark import datasets

    key, data_root = options.key, options.data_root
    if not key:
        _list(list(_rows(data_root)), json=options.json)
        return
    with interrupts.anywhere():
        folder = datasets.fetch(key, data_root)
    if options.json:
        print_json({"key": key, "path": str(folder)})
    else:
        click.echo(f"{key} is in {folder}")


def _rows(root: Path) -> Iterator[dict[str, Any]]:
    """Describe each data set: what is of it here, and who has it."""
    from servemark import datasets
    from servemark.workload import workloads

    fetched = datasets.available()
    for key, reader in sorted(datasets.readers().items()):
        files = [file for file in (root / key).rglob("*") if file.is_file()]
        yield {
            "key": key,
            "here_mb": sum(file.stat().st_size for file in files) / 1e6 if files else None,
            "packed_mb": reader.ORIGIN.megabytes,
            "packed_mb_from": reader.ORIGIN.size_from,
            "get": (FETCHED if key in fetched else BROUGHT).format(key),
            "place": reader.ORIGIN.place,
            "terms": reader.ORIGIN.terms,
            "terms_from": reader.ORIGIN.terms_from,
            "workloads": [workload.name for workload in workloads().values() if workload.dataset == key],
        }


def _list(rows: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("data set", "here", "packed", "get it", "official files at", "terms", "workloads"):
        table.add_column(column, justify="right" if column in {"here", "packed"} else "left", overflow="fold")
    for row in rows:
        here, packed = _size(row["here_mb"]), _size(row["packed_mb"])
        packed = packed and packed + _mark(row["packed_mb_from"])
        terms = row["terms"] + _mark(row["terms_from"])
        table.add_row(
            row["key"], here or "no", packed or "-", row["get"], row["place"], terms, ", ".join(row["workloads"])
        )
    stdout().print(table)
    stdout().print(f"{UNCONFIRMED} nobody confirmed it; --json says who confirmed the others")


def _mark(confirmed_by: str | None) -> str:
    return "" if confirmed_by else UNCONFIRMED


def _size(megabytes: float | None) -> str | None:
    return None if megabytes is None else f"{megabytes:,.{0 if megabytes >= 10 else 1}f} MB"
