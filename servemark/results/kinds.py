"""Kinds of documents with their types; a saved document is checked against its type before anything reads it."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from servemark.results.schema.calibration import Calibration
from servemark.results.schema.characterisation import Characterisation
from servemark.results.schema.comparison import ComparisonDocument, SavedComparison
from servemark.results.schema.history import History
from servemark.results.schema.kernels import KernelsDocument
from servemark.results.schema.machine_series import MachineSeries
from servemark.results.schema.mlperf import MlperfResult
from servemark.results.schema.profile import Profile
from servemark.results.schema.quality import QualityResult
from servemark.results.schema.run import PendingResult, Result, Series
from servemark.results.schema.suite import SuiteDocument
from servemark.results.schema.synthesis import Synthesis
from servemark.results.schema.tuning import TuningDocument

SERIES = "series"
"""The only kind that its document does not name."""
Document = TypeVar("Document")
KINDS: dict[str, tuple[type, ...]] = {
    "load": (Result, PendingResult),
    SERIES: (Series,),
    "comparison": (ComparisonDocument,),
    "saved_comparison": (SavedComparison,),
    "tuning": (TuningDocument,),
    "suite": (SuiteDocument,),
    "mlperf": (MlperfResult,),
    "history": (History,),
    "machine_series": (MachineSeries,),
    "kernels": (KernelsDocument,),
    "quality": (QualityResult,),
    "calibration": (Calibration,),
    "profile": (Profile,),
    "characterisation": (Characterisation,),
    "synthesis": (Synthesis,),
}
"""Each kind of document, and the types that it may have."""


def type_of(document: Mapping[str, Any]) -> type | None:
    """Return the type of a document by its kind; None if there is no such kind."""
    kinds = KINDS.get(str(document.get("kind", SERIES)))
    return kinds[-1 if document.get("verdict") is None else 0] if kinds else None


def conformed(document: object, kind: type[Document]) -> Document:
    """Return a foreign document as the type that it was found to have. Further keys are allowed.

    Raises ValueError with the path of a value that does not fit, like "Expected `int`, got `str` - at `$.seed`".
    """
    msgspec.convert(document, kind)  # its result lacks the further keys, the reasons of unknown figures among them
    return cast(Document, document)
