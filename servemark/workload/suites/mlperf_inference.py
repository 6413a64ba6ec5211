"""MLPerf Inference without language models and generators: the workloads of its round, and LoadGen's settings of each.

Source: mlcommons/inference, loadgen/mlperf.conf, and v6.0 in tools/submission/submission_checker/constants.py. DLRM-v2
was of the rounds 4.0 to 5.1; in its place v6.0 has DLRM-v3, which is not built here (docs/reference/models.md).
"""

from dataclasses import dataclass

from servemark.results.objectives import Slo
from servemark.workload.spec import SEPARATOR

LABEL = "MLPerf Inference v6.0"
MIN_DURATION_S = 600.0
USUAL_QUERIES = 100
"""LoadGen's own least number, from which its early stopping goes on."""
MULTI_STREAM_QUERIES = 662


@dataclass(frozen=True)
class Settings:
    """Settings of a workload: Server's bound (ms, at p99), distinct samples, and queries of Offline.

    Without a bound it has no Server scenario.
    """

    server_ms: float | None
    samples: int
    offline_queries: int

    @property
    def bound(self) -> Slo | None:
        """The bound of the Server scenario."""
        return None if self.server_ms is None else Slo(99, self.server_ms)

    def queries(self, scenario: str) -> int:
        """Fewest queries of a scenario."""
        return {"MultiStream": MULTI_STREAM_QUERIES, "Offline": self.offline_queries}.get(scenario, USUAL_QUERIES)


WORKLOADS = {
    "resnet50": Settings(15, 1_024, 24_576),
    "retinanet": Settings(100, 64, 24_576),
    "unet3d": Settings(None, 43, 43),
    "dlrm_v2": Settings(60, 204_800, 24_576),
    "transformers/google-bert/bert-large-uncased-whole-word-masking-finetuned-squad": Settings(130, 10_833, 10_833),
    "transformers/openai/whisper-large-v3": Settings(None, 1_633, 1_633),
}
"""By the name that every command takes."""


def settings_of(name: str) -> Settings | None:
    """Return the settings of a workload, by its name in paths; None for one that is not of the round."""
    return {each.replace("/", SEPARATOR): found for each, found in WORKLOADS.items()}.get(name)
