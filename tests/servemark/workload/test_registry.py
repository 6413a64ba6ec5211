"""The registry: a workload of the zoo is found by its module's name, and no other module is imported for it."""

import subprocess
import sys

from servemark.workload.registry import zoo


def test_a_built_in_workload_has_the_name_of_its_module() -> None:
    assert {workload.name: name for name, workload in zoo().items()} == {name: name for name in zoo()}


def test_one_is_found_without_the_others() -> None:
    asked = "import sys; from servemark.workload import get; get('din_tiny')"
    code = f"{asked}; assert 'servemark.models.ncf' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
