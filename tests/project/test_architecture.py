"""The layout: each room has its modules, a few of them, says what it is for, and each module its tests at its path."""

import ast
from pathlib import Path

import pytest

from servemark.cli import build
from servemark.paths import CHECKOUT
from servemark.workload import workloads
from servemark.workload.spec import DEFAULT_LOCUSTFILE

ROOMS = ("loadgen", "servemark", "exporters", "servers", "dashboards")
MAX_MODULES = 12
MAX_AT_THE_TOP = 6
REGISTRIES = {
    "loadgen": "tests/loadgen/test_locustfiles.py",
    "servemark/models": "tests/servemark/models/test_models.py",
    "servemark/datasets": "tests/servemark/datasets/test_datasets.py",
    "servemark/quality/metrics": "tests/servemark/quality/metrics/test_metrics.py",
    "servemark/kernels": "tests/servemark/kernels/test_kernels.py",
    "servers/engines": "tests/servers/engines/test_engines.py",
    "exporters": "tests/exporters/pipeline/test_parity.py",
}
"""Folders of like things, however many, and the tests that go through all of them."""
TOGETHER = {
    "dashboards/grafana": "tests/dashboards/test_build.py",
    "exporters/onnx_passes": "tests/exporters/onnx_passes/test_networks.py",
    "exporters/onnx_to_tensorflow": "tests/exporters/test_converted.py",
    "servemark/models/blocks": "tests/servemark/models/test_models.py",
    "servemark/models/synthesis": "tests/servemark/models/test_models.py",
    "servemark/report/html": "tests/servemark/report/html/test_pages.py",
    "servemark/report/page": "tests/servemark/report/html/test_pages.py",
    "servemark/report/plots": "tests/servemark/report/html/test_pages.py",
    "servemark/results/schema": "tests/servemark/results/schema/test_json_schema.py",
    "servers/modes": "tests/servers/launch/test_launch.py",
}
"""Packages that are tested by what their modules make together: graphs, requests, servers, documents, panels."""
USED_BY = {
    "exporters/pipeline/test_export": ["exporters/pipeline: config_pbtxt isolated job provenance registry"],
    "exporters/test_precisions": ["servemark/frameworks: onnxruntime openvino"],
    "integration/test_distributed_run": ["loadgen/distributed: messages worker", "loadgen/measurement: worker_figures"],
    "integration/test_grpc": ["loadgen/kserve: grpc_stream", "loadgen/targets: grpc"],
    "integration/test_shared_memory": ["loadgen/targets: http shared_memory"],
    "integration/test_signals": ["servemark/runs: locust_process"],
    "loadgen/evaluation/test_mix": ["servemark/runs: mix"],
    "loadgen/evaluation/test_result": ["loadgen/evaluation: metrics"],
    "loadgen/kserve/test_grpc_connection": ["loadgen/kserve: grpc_control", "loadgen/transport: server_url"],
    "loadgen/kserve/test_grpc_inference": [
        "loadgen/kserve: grpc_messages model_config_messages",
        "servemark: protobuf",
    ],
    "loadgen/locust_bridge/test_session": ["loadgen/evaluation: measured_run", "loadgen/targets: control open"],
    "loadgen/locust_bridge/test_web_ui": ["loadgen/locust_bridge: server_process"],
    "loadgen/inputs/test_json_file": ["loadgen/inputs: conversion"],
    "loadgen/measurement/test_output_agreement": ["servemark/workload: checked"],
    "loadgen/measurement/test_meter": ["loadgen/measurement: measurement windows"],
    "loadgen/driver/test_event_loop": ["loadgen/sut: channel target"],
    "loadgen/mlperf/test_official_loadgen": ["loadgen/mlperf: plan"],
    "loadgen/shared_memory/test_region": ["loadgen/shared_memory: over_grpc over_http slots"],
    "loadgen/targets/test_in_process": ["loadgen/targets: engine_threads"],
    "loadgen/test_locustfiles": ["loadgen: users"],
    "loadgen/transport/test_http2_frames": ["loadgen/kserve: grpc_call"],
    "exporters/importing/test_model": [
        "exporters/importing: described",
        "exporters/pipeline: imported routes",
        "servemark/cli: import_",
        "servemark/workload: imported",
    ],
    "project/test_new_workload": ["servemark/cli: _own_models"],
    "project/test_docs": ["servemark/cli: mlperf", "servemark/runs: mlperf"],
    "servemark/cli/test_bad_input": ["servemark/cli: _load_flags _options data export list", "servemark: errors"],
    "servemark/comparison/test_run": ["servemark/cli: compare", "servemark/comparison: hosting preparation rounds"],
    "servemark/comparison/test_timetable": ["servemark/comparison: warm_up"],
    "servemark/kernels/measurement/test_run": [
        "servemark/kernels/measurement: ceilings",
        "servemark/cli: kernels",
        "servemark/report: kernels",
    ],
    "servemark/kernels/libraries/test_libraries": [
        "servemark/kernels/libraries: _onnx onnxruntime openvino tensorflow",
    ],
    "servemark/kernels/tracing/test_mapping": ["servemark/kernels/tracing: calls"],
    "servemark/kernels/suites/test_suites": ["servemark/kernels/suites: ai_matrix deepbench quick two_of_four"],
    "servemark/kernels/test_kernels": ["servemark/kernels/measurement: kernel"],
    "servemark/machine/test_environment": ["servemark/machine: gpus"],
    "servemark/max_rate/test_curve": ["servemark/report/terminal: series"],
    "servemark/comparison/test_document": ["servemark/report/terminal: comparison"],
    "servemark/quality/metrics/test_metrics": ["servemark/quality: metric registry"],
    "servemark/runs/test_quality": [
        "loadgen/driver: labelled",
        "loadgen/evaluation: quality",
        "loadgen/inputs: labels",
        "servemark/cli: quality",
        "servemark/quality: document journal scoring",
        "servemark/report: quality",
        "servemark/runs: labelled",
        "servemark/workload: labelled",
    ],
    "servemark/runs/test_suite": [
        "servemark/cli: suite",
        "servemark/report: ai_matrix",
        "servemark/report/terminal: suite",
        "servemark/runs: server suite_plan",
    ],
    "servemark/models/test_models": ["servemark/workload: registry spec tensor", "servemark/frameworks: tensorflow"],
    "servemark/history/test_document": [
        "servemark/cli: history",
        "servemark/history: collect",
        "servemark/report/terminal: history",
    ],
    "servemark/regression/test_differences": [
        "servemark/regression: compare saved_runs",
        "servemark/report/terminal: regression",
    ],
    "servemark/results/schema/test_json_schema": ["servemark/cli: schema"],
    "servemark/results/test_constraints": ["servemark/results: verdict"],
    "servemark/stats/test_histogram": ["servemark/stats: order_statistics"],
    "servemark/telemetry/energy/test_meter": ["servemark/telemetry/energy: nvml rapl"],
    "servemark/telemetry/metrics/test_catalog": ["servemark/telemetry/metrics: snapshot"],
    "servemark/telemetry/metrics/test_publisher": ["servemark/telemetry/metrics: destinations endpoint process"],
    "servemark/telemetry/test_beat": ["servemark/telemetry: native"],
    "servemark/watching/test_stack": ["servemark/cli: dashboards"],
    "servemark/telemetry/metrics/test_push": ["servemark/telemetry/metrics: push_gateway"],
    "servemark/tuning/test_search": ["servemark/tuning: ledger log space trial"],
    "servemark/tuning/test_session": [
        "servemark/cli: tune",
        "servemark/tuning: bench",
        "servemark/comparison: tuned",
        "servemark/report/terminal: tuning",
    ],
    "servers/launch/test_launch": ["servers/launch: guard ports process readiness reloading server"],
    "servers/triton_backend/test_device_tensors": [
        "servers/triton_backend: adapter tensors",
        "servers/engines: _loading",
        "servemark/repository: model_config",
    ],
}
"""Test files, and modules that are tested there: types, wiring, commands, and halves of what the file tests whole."""


def packages() -> list[Path]:
    """Every folder with modules, from the checkout; Triton's own entry points are none of ours to arrange."""
    folders = {path.parent.relative_to(CHECKOUT) for room in ROOMS for path in (CHECKOUT / room).rglob("*.py")}
    return sorted(folder for folder in folders if folder.parts[:2] != ("servers", "backends"))


def modules(package: str | Path) -> list[str]:
    """The names of its modules."""
    return sorted(path.stem for path in (CHECKOUT / package).glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("package", packages(), ids=str)
def test_a_package_says_what_it_is_for_and_holds_a_few_modules(package: Path) -> None:
    init = CHECKOUT / package / "__init__.py"
    assert init.exists()
    assert ast.get_docstring(ast.parse(init.read_text())), "what is the package for, and what must it not import?"
    if str(package) not in {*REGISTRIES, "servemark/cli"}:
        assert len(modules(package)) <= MAX_MODULES


def test_the_load_generator_s_top_is_locustfiles_and_what_they_import() -> None:
    assert set(modules("loadgen")) == {w.locustfile for w in workloads().values()} | {DEFAULT_LOCUSTFILE, "users"}


def test_the_top_of_servemark_is_a_few_modules() -> None:
    assert len(modules("servemark")) <= MAX_AT_THE_TOP


def test_the_command_line_holds_commands_and_plumbing_only() -> None:
    names = {name.rstrip("_") for name in modules("servemark/cli") if not name.startswith("_")}  # import_: a keyword
    assert names == set(build().commands)


@pytest.mark.parametrize("package", packages(), ids=str)
def test_no_name_of_a_package_is_hidden_by_a_module_of_it(package: Path) -> None:
    """Importing the module would put it in the place of the function."""
    tree = ast.parse((CHECKOUT / package / "__init__.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    below = {path.name for path in (CHECKOUT / package).iterdir() if path.is_dir()} | set(modules(package))
    assert not defined & below


def path_of_tests(package: Path, module: str) -> str:
    """Where the tests of a module are, from tests/."""
    return f"{package}/test_{module.removeprefix('_')}"


def test_every_module_has_tests_at_its_path_or_stands_on_a_list() -> None:
    elsewhere: dict[tuple[str, str], str] = {}
    for tests, groups in USED_BY.items():
        for folder, _, names in (group.partition(": ") for group in groups):
            elsewhere |= {(folder, name): tests for name in names.split()}
    missing, needless = [], []
    for package in packages():
        for module in modules(package):
            own = (CHECKOUT / "tests" / f"{path_of_tests(package, module)}.py").exists()
            listed = elsewhere.pop((str(package), module), None)
            if own and listed:
                needless.append(f"{package}/{module}")
            if not own and not listed and str(package) not in {*REGISTRIES, *TOGETHER}:
                missing.append(f"{package}/{module}: no tests/{path_of_tests(package, module)}.py")
    assert not missing
    assert not needless, "these have tests of their own, and need no place on the list"
    assert not elsewhere, "these are on the list, and no modules"


def test_the_tests_on_the_lists_are_there() -> None:
    named = {*REGISTRIES.values(), *TOGETHER.values(), *(f"tests/{name}.py" for name in USED_BY)}
    assert not {name for name in named if not (CHECKOUT / name).exists()}
