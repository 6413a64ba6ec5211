"""Prometheus and Grafana beside a run: their files, and the processes or containers. Knows no command line."""
