"""Prometheus and Grafana beside a run, and MLflow, which keeps results. Knows no command line."""
