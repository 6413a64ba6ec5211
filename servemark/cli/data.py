"""`servemark data`: fetch a data set."""

from typing import Annotated

import typer

from servemark import interrupts
from servemark.cli._command import one_command
from servemark.cli._options import DEFAULT_DATA_ROOT, DataRoot, Json
from servemark.results.directory import print_json


def data(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Data set, like ml-100k.")],
    data_root: DataRoot = DEFAULT_DATA_ROOT,
    json: Json = False,
) -> None:
    """Fetch a data set into DATA_ROOT/KEY in its official layout, where it can be had.

    Example: servemark data ml-100k
    """
    from servemark import datasets

    with interrupts.anywhere():
        folder = datasets.fetch(key, data_root)
    if json:
        print_json({"key": key, "path": str(folder)})
    else:
        typer.echo(f"{key} is in {folder}")


app = one_command(data)
