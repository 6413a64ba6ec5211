"""Reading of an endpoint's description."""

import os
from pathlib import Path

from loadgen.endpoints.endpoint import endpoint_of

DESCRIBED = '{"about": "%s", "request": {"path": "/p", "body": 1}, "answer": {"row": ""}}'


def test_a_description_is_read_once_until_it_changes(tmp_path: Path) -> None:
    assert endpoint_of("kserve-v1") is endpoint_of("kserve-v1")
    file = tmp_path / "mine.json"
    file.write_text(DESCRIBED % "before")
    os.utime(file, (1, 1))
    assert endpoint_of(str(file)) is endpoint_of(str(file))
    file.write_text(DESCRIBED % "after")
    os.utime(file, (2, 2))
    assert endpoint_of(str(file)).about == "after"
