"""Labels of suite cases and changes, as documents hold them and every view shows them."""

from servemark.results.schema.history import HistoryChange


def suite_case(workload: str, precision: str, batch: int) -> str:
    """Return the label of a suite's case: "resnet50", "resnet50 int8 -b 16"."""
    return workload + ("" if precision == "fp32" else f" {precision}") + (f" -b {batch}" if batch > 1 else "")


def change(found: HistoryChange) -> str:
    """Return how far a figure's level moved, and between which commits."""
    first, second = (commit[:12] if commit else "an unknown commit" for commit in found["commits"])
    same = found["commits"][0] == found["commits"][1]
    place = f"at {first}: the commit is the same, its surroundings are not" if same else f"between {first} and {second}"
    moved = f"{found['ratio'] - 1:.1%} higher" if found["ratio"] > 1 else f"{1 - found['ratio']:.1%} lower"
    return f"{found['reading']}: {moved} {place}"
