"""Ranges of concurrencies and rates: START:END[:STEP]."""

import numpy as np
import pytest

from servemark.cli._ranges import concurrencies, rates
from servemark.errors import OptionError


def test_ranges() -> None:
    assert concurrencies("--concurrency", "8", "") == [8]
    assert concurrencies("--concurrency", "1", "1:4") == [1, 2, 3, 4]
    assert concurrencies("--concurrency", "1", "1:16:5") == [1, 6, 11, 16]
    assert concurrencies("--concurrency", "1", "2:9:5") == [2, 7]
    assert concurrencies("--concurrency", "1", "3:3") == [3]
    np.testing.assert_allclose(rates("--request-rate", "", "0.1:0.5:0.1"), [0.1, 0.2, 0.3, 0.4, 0.5])
    assert len(rates("--request-rate", "", "1:100")) == 100
    with pytest.raises(OptionError, match="asks for 101 runs"):
        rates("--request-rate", "", "1:101")
