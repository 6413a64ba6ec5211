"""Exporters: a workload becomes an artifact in the model repository, checked against eager PyTorch.

One module for each engine, under Triton's name of its backend. Adding an engine is adding a module here.
"""

from exporters.pipeline.export import ExportReport, export, require_exporter
from exporters.pipeline.registry import check_precision, engines, exporter, precisions

__all__ = ["ExportReport", "check_precision", "engines", "export", "exporter", "precisions", "require_exporter"]
