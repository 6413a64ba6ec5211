"""The command group itself: what it answers without a command."""

from servemark import __version__
from tests.support.command_line import Servemark


def test_the_version_needs_no_command(servemark: Servemark) -> None:
    assert servemark("--version") == (0, f"servemark {__version__}\n", "")


def test_no_command_shows_the_help_with_the_exit_codes(servemark: Servemark) -> None:
    code, out, _ = servemark()
    assert code == 0
    assert "130 ended by a signal" in " ".join(out.split())
