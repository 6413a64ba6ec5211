"""Amazon product reviews, Electronics, 5-core: what users reviewed, in order of time.

He & McAuley 2016, "Ups and Downs" (WWW). The official `reviews_Electronics_5.json` holds one JSON object a line, with
`reviewerID`, `asin` (the product) and `unixReviewTime` among its fields.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from servemark.datasets import COPY, Origin, _text
from servemark.errors import InputDataError

KEY = "amazon_electronics"
ORIGIN = Origin("jmcauley.ucsd.edu/data/amazon (2014, 5-core)", 496, "cite the papers", size_from=COPY, terms_from=COPY)
FILE = "reviews_Electronics_5.json"
_FIX = f"put the official {FILE} (one JSON object a line, unpacked) into {KEY}/"


def histories(folder: Path) -> Iterator[list[int]]:
    """Yield each user's products, oldest first; they count from 0 in order of their `asin`, as in DIN's code.

    Reviews of the same second keep the order of the file. Raises InputDataError with file and line.
    """
    reviews: dict[str, list[tuple[int, str]]] = {}
    for place, line in _text.lines(folder / FILE, _FIX):
        user, time, product = _parse(line, place)
        reviews.setdefault(user, []).append((time, product))
    asins = sorted({product for history in reviews.values() for _, product in history})
    ids = {asin: index for index, asin in enumerate(asins)}
    for history in reviews.values():
        yield [ids[product] for _, product in sorted(history, key=lambda review: review[0])]


def _parse(line: str, place: str) -> tuple[str, int, str]:
    try:
        review = json.loads(line)
        return str(review["reviewerID"]), int(review["unixReviewTime"]), str(review["asin"])
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputDataError(f"{place}: no review ({error!r}) in {line.strip()[:80]!r}", fix=_FIX) from error
