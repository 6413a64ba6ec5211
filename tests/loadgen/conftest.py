"""Locust without its patches: whatever else runs in a test's process needs threads and sockets as they are."""

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("LOCUST_SKIP_MONKEY_PATCH", "1")
    import locust  # noqa: F401 - before the modules under test import it
