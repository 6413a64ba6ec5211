"""Writes the dashboards' JSON: `python -m dashboards.build [FOLDER]`, into `dashboards/grafana/json` if none is named.

Needs grafana-foundation-sdk (`pip install servemark[dashboards]`); whoever uses the JSON does not.
"""

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import FOLDER
from dashboards.grafana import energy, engines, fleet, latency

DASHBOARDS = {
    "latency": latency.dashboard,
    "engines": engines.dashboard,
    "energy": energy.dashboard,
    "fleet": fleet.dashboard,
}
"""File name -> what makes the dashboard."""
OF_INTERVALS = ("auto", "auto_count", "auto_min")
"""Keys that the SDK writes for every variable, although Grafana has them for interval variables only."""


def text(made: dashboard.Dashboard) -> str:
    """Return a dashboard as its file has it: sorted, so that a change is a small diff."""
    document = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    for variable in document["templating"]["list"]:
        for key in OF_INTERVALS:
            variable.pop(key, None)
    for panel in document["panels"]:
        panel.get("options", {}).pop("footer", None)  # of tables, until Grafana 12
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def build(folder: Path) -> list[Path]:
    """Write each dashboard to a folder; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, make in DASHBOARDS.items():
        files.append(folder / f"{name}.json")
        files[-1].write_text(text(make()))
    return files


if __name__ == "__main__":
    named = [Path(argument) for argument in sys.argv[1:]] or [FOLDER / "grafana" / "json"]
    for written in build(*named):
        sys.stdout.write(f"{written}\n")
