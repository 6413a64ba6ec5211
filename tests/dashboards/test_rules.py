"""Prometheus's files: promtool reads them, and the alerts fire when the workbook says, by promtool's own unit tests.

Google, The Site Reliability Workbook (2018), chapter 5, "Alerting on SLOs", 6: "Multiwindow, Multi-Burn-Rate Alerts".
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import FOLDER
from tests.support.prometheus import needs_promtool

PROMETHEUS = FOLDER / "prometheus"
RULES = PROMETHEUS / "rules" / "slo.yml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
RECORDED = {rule["record"]: rule["expr"] for group in GROUPS for rule in group["rules"] if "record" in rule}
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule}
WORKBOOK = {
    "ServemarkBudgetBurnsInDays": [("1h", "14.4"), ("5m", "14.4"), ("6h", "6"), ("30m", "6")],
    "ServemarkBudgetBurnsInWeeks": [("1d", "3"), ("2h", "3"), ("3d", "1"), ("6h", "1")],
}
"""Windows and thresholds for a budget of 30 days."""
LABELS = 'workload="ranking",engine="onnxruntime",precision="fp32",device="cpu",scenario="open",run="r"'
RATE = 100
"""Requests a minute of the simulated runs; p99 allows one of them."""


def promtool(*arguments: str) -> None:
    command = [str(shutil.which("promtool")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_reads_the_configuration_and_the_rules() -> None:
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    promtool("check", "rules", str(RULES))


@pytest.mark.parametrize("name", WORKBOOK)
def test_windows_and_thresholds_are_the_workbook_s(name: str) -> None:
    assert re.findall(r"rate(\w+) > ([\d.]+)", ALERTS[name]["expr"]) == WORKBOOK[name]


def test_a_run_of_minutes_has_windows_of_a_tenth_or_a_twelfth() -> None:
    def seconds(window: str) -> int:
        return int(window[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[window[-1]]

    of_runs = re.findall(r"rate(\w+) > ([\d.]+)", ALERTS["ServemarkRunBurnsItsBudget"]["expr"])
    for (short, threshold), (long, same) in zip(of_runs, WORKBOOK["ServemarkBudgetBurnsInDays"], strict=True):
        assert threshold == same
        assert seconds(long) / seconds(short) in {10, 12}


def test_every_window_is_recorded_and_each_is_used() -> None:
    used = {name for rule in ALERTS.values() for name in re.findall(r"servemark:objective_burn:rate\w+", rule["expr"])}
    assert used == set(RECORDED)
    for name, expression in RECORDED.items():
        assert set(re.findall(r"\[(\w+)\]", expression)) == {name.partition("rate")[2]}
    assert len({re.sub(r"\[\w+\]", "", expression) for expression in RECORDED.values()}) == 1


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "breaches", "fires", "step_min", "after_min"),
    [
        ("ServemarkBudgetBurnsInDays", 15, True, 1, 65),
        ("ServemarkBudgetBurnsInDays", 7, True, 10, 380),
        ("ServemarkBudgetBurnsInDays", 5, False, 1, 65),
        ("ServemarkBudgetBurnsInWeeks", 4, True, 60, 1560),
        ("ServemarkBudgetBurnsInWeeks", 0.5, False, 60, 1560),
        ("ServemarkRunBurnsItsBudget", 7, True, 1, 35),
        ("ServemarkRunBurnsItsBudget", 5, False, 1, 35),
    ],
)
def test_an_alert_fires_when_the_budget_burns_and_not_below(
    alert: str, breaches: float, fires: bool, step_min: int, after_min: int, tmp_path: Path
) -> None:
    """Test a rule with constant `breaches` of p99 among 100 requests a minute, by promtool's clock."""
    constant, objective = f"x{after_min // step_min + 1}", f'{LABELS},objective="latency_p99"'
    grows = {f"servemark_objective_breaches_total{{{objective}}}": breaches}
    grows[f'servemark_requests_total{{{LABELS},outcome="ok",kind=""}}'] = RATE - breaches
    grows[f'servemark_requests_total{{{LABELS},outcome="failed",kind="timeout"}}'] = breaches
    series = {name: f"0+{rate * step_min:g}{constant}" for name, rate in grows.items()}
    series[f"servemark_objective_allowed_ratio{{{objective}}}"] = f"0.01{constant}"
    kept = dict(re.findall(r'(\w+)="(\w+)"', objective)) | ALERTS[alert]["labels"]
    del kept["run"]
    # promtool compares annotations word for word: they are left out of the copy that it tests.
    groups = [group | {"rules": [_bare(rule) for rule in group["rules"]]} for group in GROUPS]
    (tmp_path / "slo.yml").write_text(yaml.safe_dump({"groups": groups}))
    expected = [{"exp_labels": kept}] if fires else []
    test = {
        "interval": f"{step_min}m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{after_min}m", "alertname": alert, "exp_alerts": expected}],
    }
    settings = {
        "rule_files": ["slo.yml"],
        "evaluation_interval": f"{step_min}m",
        # promtool evaluates groups in any order else, and steps of an hour are too long to use the last one's records.
        "group_eval_order": [group["name"] for group in GROUPS],
        "tests": [test],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(settings))
    promtool("test", "rules", str(tmp_path / "tests.yml"))


def _bare(rule: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key != "annotations"}
