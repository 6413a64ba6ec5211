"""JUnit XML for a pipeline: each constraint and each objective is a test case, a failure carries its remedy."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET  # writes only: nothing is parsed

from servemark.output import printable
from servemark.results.objectives import MET
from servemark.results.saved import Saved
from servemark.views.terminal.load import of_constraint
from servemark.views.wording import figure

_NO_XML = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True)
class Case:
    """A test case; `failure` says what is wrong and what to do, `skipped` why it was not judged."""

    subject: str
    name: str
    failure: str | None = None
    detail: str = ""
    skipped: str | None = None


def to_junit(documents: Sequence[Saved]) -> str:
    """A suite of test cases for each document. Raises KeyError, TypeError where one is damaged."""
    root = ET.Element("testsuites", {"name": "servemark"})
    for saved in documents:
        cases = list(_CASES[saved.kind](saved))
        failed, skipped = (sum(getattr(case, key) is not None for case in cases) for key in ("failure", "skipped"))
        counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}
        created = str(saved.document.get("created", ""))[:19]
        suite = ET.SubElement(root, "testsuite", {"name": _words(saved.name), **counts, "timestamp": _words(created)})
        for case in cases:
            _write(suite, case)
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _write(suite: ET.Element, case: Case) -> None:
    element = ET.SubElement(
        suite, "testcase", {"classname": _words(case.subject), "name": _words(case.name), "time": "0"}
    )
    if case.failure is not None:
        failure = ET.SubElement(element, "failure", {"message": _words(case.failure), "type": "servemark"})
        failure.text = _words(f"{case.detail}\n{case.failure}".strip())
    if case.skipped is not None:
        ET.SubElement(element, "skipped", {"message": _words(case.skipped)})


def _words(text: str) -> str:
    """Replace the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("\ufffd", printable(text))


def _judged(verdict: Mapping[str, Any], subject: str) -> Iterator[Case]:
    """The constraints and the objectives of one verdict."""
    for each in verdict["constraints"]:
        value, limit = of_constraint(each)
        detail = "" if limit == "-" else f"{value} (limit {limit} {each['unit']})"
        yield Case(subject, f"constraint {each['name']}", None if each["ok"] else each["remedy"], detail)
    for name, why in verdict.get("skipped", {}).items():
        yield Case(subject, f"constraint {name}", skipped=why)
    for each in verdict.get("objectives", []):
        missed = None if each["status"] == MET else f"{each['status']}: {each['remedy']}"
        detail = f"{figure(each['value'])} (limit {figure(each['limit'])} {each['unit']})"
        yield Case(subject, f"objective {each['objective']}", missed, detail)


def _run(saved: Saved) -> Iterator[Case]:
    result = saved.document
    yield from _judged(result["verdict"], f"{result['workload']}.{result['engine']}")


def _comparison(saved: Saved) -> Iterator[Case]:
    document = saved.document
    for row in document["rows"]:
        verdict, subject = row["verdict"], f"{document['workload']}.{row['label']}"
        counted = ", ".join(f"{name} in {count} of {row['rounds']}" for name, count in verdict["failed"].items())
        yield Case(subject, "rounds", None if verdict["valid"] else verdict.get("remedy") or counted, counted)
        if (missed := verdict["objective_missed"]) is not None:
            yield Case(subject, "objective", f"missed in {missed} of {row['rounds']} rounds" if missed else None)
    for left in document["left_out"]:
        yield Case(f"{document['workload']}.{left['label']}", "takes part", skipped=left["reason"])
    if gate := document.get("gate"):
        yield from _differences(gate)


def _saved_comparison(saved: Saved) -> Iterator[Case]:
    yield from _differences(saved.document)


def _differences(found: Mapping[str, Any]) -> Iterator[Case]:
    """Each figure that decides; where it could not be decided, the case fails too."""
    for subject in found["subjects"]:
        for each in subject["differences"]:
            if each["judged"]:
                ratio = each["ratio"]["value"] if each["ratio"] else None
                wrong = each["reading"] if each["regression"] or each["reading"] in {"undecided", "not known"} else None
                detail = f"{figure(each['a'])} -> {figure(each['b'])}, ratio {figure(ratio)}"
                yield Case(subject["b"], f"{each['figure']} is not worse", wrong, detail)
    yield Case(f"{found['b']} against {found['a']}", "outcome", *_outcome(found))


def _outcome(found: Mapping[str, Any]) -> tuple[str | None, str]:
    reasons = "; ".join([*found["regressions"], *found["undecided"]])
    return (None if found["outcome"] == "not worse" else f"{found['outcome']}: {reasons}"), ""


def _suite(saved: Saved) -> Iterator[Case]:
    for row in saved.document["rows"]:
        verdict = row["verdict"] or "no verdict"
        wrong = row["failure"] or (None if verdict == "VALID" else verdict)
        yield Case(f"suite.{saved.document['suite']}", row["workload"], wrong)


def _tuning(saved: Saved) -> Iterator[Case]:
    document = saved.document
    decided = document["outcome"] in {"better", "same"}
    yield Case(f"{document['workload']}.{document['engine']}", "tuning", None if decided else document["reason"])


def _quality(saved: Saved) -> Iterator[Case]:
    result, found = saved.document, saved.document["quality"]
    subject = f"{result['workload']}.{result['engine']}"
    if found is None:
        yield Case(subject, "quality", "nothing was scored")
        return
    value = f"{figure(found['figures'][0]['value'])} (target {figure(found['target'])})"
    missed = "the target is missed" if found["outcome"] == "missed" else None
    yield Case(subject, found["metric"], missed, value, found.get("reason"))


def _kernels(saved: Saved) -> Iterator[Case]:
    for case in saved.document["cases"]:
        reason = case["reason"] or case["status"]
        failed, skipped = (reason if case["status"] == status else None for status in ("failed", "skipped"))
        yield Case(f"kernels.{case['family']}.{case['precision']}", case["label"], failed, skipped=skipped)


def _history(saved: Saved) -> Iterator[Case]:
    for series in saved.document["series"]:
        wrong = None if series["outcome"] == "not worse" else f"{series['outcome']}: {series['reason']}"
        yield Case(series["subject"], f"{saved.document['metric']} on {series['machine']}", wrong)


_CASES: dict[str, Callable[[Saved], Iterator[Case]]] = {
    "load": _run,
    "mlperf": _run,
    "comparison": _comparison,
    "saved_comparison": _saved_comparison,
    "suite": _suite,
    "tuning": _tuning,
    "kernels": _kernels,
    "quality": _quality,
    "history": _history,
}
