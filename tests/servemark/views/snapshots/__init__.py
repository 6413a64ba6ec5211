"""Texts that readers see; `SERVEMARK_SNAPSHOTS=write pytest tests/servemark/views` writes anew what was meant."""

import os
import re
from pathlib import Path

WRITE = os.environ.get("SERVEMARK_SNAPSHOTS") == "write"


def assert_unchanged(name: str, text: str, folder: Path | None = None) -> None:
    """Hold a text against its snapshot, or write it."""
    file = Path(__file__).parent / f"{name}.txt"
    text = (text.replace(str(folder), "FOLDER") if folder else text).strip() + "\n"
    if WRITE:
        file.write_text(text)
    assert _rounded(text).splitlines() == _rounded(file.read_text()).splitlines()


def _rounded(text: str) -> str:
    """Cut numbers to the digits that are the same on every make of CPU, which sum in an order of their own."""
    return re.sub(r"\d+\.\d{10,}", lambda number: f"{float(number[0]):.10g}", text)
