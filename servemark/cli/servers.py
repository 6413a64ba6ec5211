"""`servemark servers`: the server products that `compare --servers` knows, and their environments."""

from typing import Any

from rich.table import Table

from servemark.documents.commands.prepare import Servers, ServersInstall
from servemark.errors import OptionError
from servemark.output import note, stdout
from servemark.results.directory import print_json


def servers(options: Servers) -> None:
    """List them."""
    rows = _rows()
    if options.json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("server", "package", "installed", "requests", "gRPC", "joins requests", "an instance", "tried"):
        table.add_column(column, no_wrap=column in {"package", "an instance", "tried"})
    for row in rows:
        table.add_row(
            row["server"],
            f"{row['package']} {row['version'] or ''}" if row["package"] else "by --url alone",
            _yes_or_no(row["installed"]),
            row["requests"],
            _yes_or_no(row["grpc"]),
            row["batching"] or ("no" if row["package"] else "-"),
            row["instances"] or "-",
            _yes_or_no(row["tried"]),
        )
    stdout().print(table)
    stdout().print("\n".join(["", "guides:", *(f"{row['server']:<21} {row['guide']}" for row in rows)]), soft_wrap=True)
    untried = [f"{row['server']} was not tried: {row['how_tried']}" for row in rows if not row["tried"]]
    stdout().print("\n".join(["", *untried, ""]), soft_wrap=True)
    if missing := [row["server"] for row in rows if row["installed"] is False]:
        stdout().print(f"servemark servers install {' '.join(missing)}")


def install(options: ServersInstall) -> None:
    """Install products."""
    from servers.launch.product_server import Environment
    from servers.products import TRITON, product, version

    for name in options.names:
        product(name)
        if name == TRITON:
            raise OptionError("triton comes with servemark", fix="pip install -e '.[triton]'")
    for name in options.names:
        environment = Environment(name)
        if environment.installed:
            note(f"{name} {version(name)} is installed in {environment.folder}")
            continue
        note(f"installing {name} {version(name)} into {environment.folder}")
        environment.install()
        note(f"{name} {version(name)} is installed")
    if options.json:
        print_json([row for row in _rows() if row["server"] in options.names])


def _yes_or_no(value: bool | None) -> str:
    """Return a word for a column; a dash where there is nothing to say."""
    return "-" if value is None else "yes" if value else "no"


def _rows() -> list[dict[str, Any]]:
    """Describe each product, and what is here of it."""
    from servers import find_modes
    from servers.launch.product_server import Environment
    from servers.products import ELSEWHERE, PRODUCTS, TRITON, version

    rows: list[dict[str, Any]] = []
    for name, about in PRODUCTS.items():
        here = None in find_modes().values() if name == TRITON else Environment(name).installed
        kserve = f"KServe v2, {'binary and JSON' if about.binary_tensors else 'JSON'}"
        rows.append(
            {
                "server": name,
                "package": about.package,
                "version": version(name),
                "installed": here,
                "place": None if name == TRITON else str(Environment(name).folder),
                "requests": about.endpoint_type or kserve,
                "grpc": about.grpc,
                "batching": about.batching or None,
                "instances": about.instances,
                "guide": about.guide,
                "tried": True,
                "how_tried": about.tried,
            }
        )
    for each in ELSEWHERE:
        not_here = dict.fromkeys(("package", "version", "installed", "place", "batching", "instances"))
        rows.append(
            {
                "server": each.name,
                **not_here,
                "requests": each.endpoint_type or "KServe v2",
                "grpc": each.grpc,
                "guide": each.guide,
                "tried": False,
                "how_tried": each.reason,
            }
        )
    return rows
