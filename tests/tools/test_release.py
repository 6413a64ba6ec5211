"""A release: versions agree, and its notes are a section of the changelog. tests/integration builds and installs it."""

import pytest

from servemark import __version__
from servemark.errors import OptionError
from servemark.paths import CHECKOUT
from tools.release import notes, version

CHANGELOG = "# Changelog\n\n## 0.2.0 (2027-01-01)\n\n- new\n\n## 0.1.0\n\n- first\n"


def test_the_files_and_the_tag_agree() -> None:
    assert version() == version(f"v{__version__}") == __version__
    with pytest.raises(OptionError, match=r"the tag.*9\.9\.9"):
        version("v9.9.9")


def test_notes_are_the_versions_own() -> None:
    assert notes("0.2.0", CHANGELOG) == "- new\n"
    assert notes("0.1.0", CHANGELOG) == "- first\n"
    with pytest.raises(OptionError, match=r"no section 0\.3\.0"):
        notes("0.3.0", CHANGELOG)


def test_this_version_has_notes() -> None:
    assert "- **" in notes(__version__, (CHECKOUT / "CHANGELOG.md").read_text())
