"""JSON Schema of Grafana's dashboards, from the types that Grafana publishes: `python -m tools.grafana_schema`.

Grafana publishes its dashboard schema as TypeScript types, generated from its CUE kinds, in the npm package
@grafana/schema (Apache-2.0). npm's ts-json-schema-generator makes JSON Schema of them: of the dashboard, and of what
it leaves to each panel. The tests check the dashboards against the file that this writes.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from servemark.paths import CHECKOUT

GRAFANA = "13.2.3"
GENERATOR = "ts-json-schema-generator@2.3.0"
FILE = CHECKOUT / "tests" / "dashboards" / "grafana" / "schema.json"
TYPES = "@grafana/schema/dist/types/raw"
PANELS = {"timeseries": True, "heatmap": True, "stat": False, "table": True, "statetimeline": True}
"""Panel -> whether it has settings of fields, too."""


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        packages = [f"@grafana/schema@{GRAFANA}", GENERATOR]
        subprocess.run(["npm", "install", "--ignore-scripts", "--prefix", folder, *packages], check=True)  # noqa: S607
        found = {"grafana": GRAFANA, "dashboard": schema(place, "Dashboard", dashboard())}
        found |= {name: schema(place, "Panel", panel(name, fields=fields)) for name, fields in PANELS.items()}
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def dashboard() -> str:
    """TypeScript that names the dashboard."""
    return f"export type {{ Dashboard }} from '{TYPES}/dashboard/x/types.gen';"


def panel(name: str, *, fields: bool) -> str:
    """TypeScript of what the dashboard's own type leaves open in a panel."""
    names, custom = ("Options, FieldConfig", "fieldConfig: FieldConfig") if fields else ("Options", "")
    types = f"import type {{ {names} }} from '{TYPES}/composable/{name}/panelcfg/x/types.gen';"
    return f"{types} export interface Panel {{ options: Options; {custom} }}"


def schema(place: Path, kind: str, source: str) -> Any:
    """Have the schema of a type made."""
    (place / "source.ts").write_text(source)
    command = ["npx", "ts-json-schema-generator", "--path", "source.ts", "--type", kind, "--no-type-check"]
    done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
    return without_prose(json.loads(done.stdout))


def without_prose(node: Any) -> Any:
    """Leave the descriptions out."""
    if isinstance(node, dict):
        return {
            key: without_prose(value)
            for key, value in node.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [without_prose(item) for item in node] if isinstance(node, list) else node


if __name__ == "__main__":
    main()
