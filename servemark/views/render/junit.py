"""JUnit XML for a pipeline: each constraint and each objective is a test case, a failure carries its remedy."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET  # writes only: nothing is parsed

from servemark.output import printable
from servemark.results.saved import Saved
from servemark.views.blocks import Check
from servemark.views.kinds import kind_of

_NO_XML = re.compile("[\ufffe\uffff]")


def to_junit(documents: Sequence[Saved]) -> str:
    """A suite of test cases for each document. Raises KeyError, TypeError where one is damaged."""
    root = ET.Element("testsuites", {"name": "servemark"})
    for saved in documents:
        checks = list(kind_of(saved).checks(saved))
        failed, skipped = (sum(each.ok is ok for each in checks) for ok in (False, None))
        counts = {"tests": str(len(checks)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}
        created = str(saved.document.get("created", ""))[:19]
        suite = ET.SubElement(root, "testsuite", {"name": _words(saved.name), **counts, "timestamp": _words(created)})
        for check in checks:
            _write(suite, check)
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _write(suite: ET.Element, check: Check) -> None:
    case = {"classname": _words(check.subject), "name": _words(f"{check.kind} {check.name}".strip()), "time": "0"}
    element = ET.SubElement(suite, "testcase", case)
    if check.ok is None:
        ET.SubElement(element, "skipped", {"message": _words(check.note)})
    elif not check.ok:
        message = f"{check.word.lower()}: {check.note}" if check.kind == "objective" else check.note
        failure = ET.SubElement(element, "failure", {"message": _words(message), "type": "servemark"})
        failure.text = _words(f"{check.words}\n{message}".strip())


def _words(text: str) -> str:
    """Replace the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("\ufffd", printable(text))
