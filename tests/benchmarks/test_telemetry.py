"""The page of the cost of watching: what it says of figures that are given."""

from benchmarks.rig.load import Figures
from benchmarks.system.telemetry import page


def test_the_page_has_ratio_difference_and_every_pair() -> None:
    closed = [(Figures(989.0 + n, 1.0, 10.0, None), Figures(1000.0, 1.0, 10.0, None)) for n in range(5)]
    opened = [(Figures(480.0, 1.0, 22.0, 0.206 + n / 500), Figures(500.0, 1.0, 20.0, 0.2)) for n in range(5)]
    text = page(5000, 10, closed, opened)
    assert "| throughput at 5000 requests/s | ratio 0.960" in text
    assert "aim >= 0.97: NOT MET |" in text
    assert "closed loop of 32, all cores in use | ratio 0.991" in text
    assert "| schedule delay p99 at 5000 requests/s | +0.010 ms (" in text
    assert "ratio 1.10" in text
    assert text.count("\n| ") == 1 + 4 + 1 + 5  # two heads, and their rows
