"""The documentation site: Sphinx reads every page without a warning, so that no link of it is broken."""

import subprocess
import sys
from pathlib import Path

from servemark.paths import CHECKOUT


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html", "-c", "docs"]
    done = subprocess.run([*build, ".", str(tmp_path)], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
