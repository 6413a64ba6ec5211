"""Views of a run in progress: Grafana dashboards, Prometheus's configuration and rules, Kubernetes manifests.

Data, and the code that writes the dashboards' JSON from Python. Reads metrics alone: imports none of the other rooms.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Folder of the files: in a checkout, or in the installed package."""
EXPORTED = ("compose.yaml", "compose.gpu.yaml", "grafana/json", "grafana/provisioning", "prometheus")
"""Files that a Prometheus and a Grafana need, and those that start both in containers."""
