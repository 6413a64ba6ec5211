"""What shows a run while it goes on: Grafana dashboards, Prometheus's configuration and rules, Kubernetes manifests.

Data, and the code that writes the dashboards' JSON from Python. Reads metrics alone: imports none of the other rooms.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Where the files are: in a checkout, or in the installed package."""
EXPORTED = ("compose.yaml", "compose.gpu.yaml", "grafana/json", "grafana/provisioning", "prometheus")
"""What a Prometheus and a Grafana need of them, and what starts both in containers."""
