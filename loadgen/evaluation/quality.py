"""Quality of a load run's answers: `run --quality`."""

from dataclasses import dataclass

from loadgen.driver.observers import LabelledAnswers
from loadgen.inputs.labels import labelled_set, metric_of
from loadgen.load.load_config import LoadConfig
from servemark.errors import InputDataError
from servemark.figures.value import Value
from servemark.quality.document import score, weights_of
from servemark.quality.scoring import NO_ANSWER, Answers, rows_of
from servemark.results.schema.details import QualityScore


@dataclass(frozen=True)
class Scored:
    """The task's quality, its target, and the whole score; where it cannot be known the run stands, with the reason."""

    value: Value
    target: Value
    score: QualityScore | None = None

    @classmethod
    def of(cls, config: LoadConfig, answers: LabelledAnswers | None) -> "Scored":
        """Score the answers that were kept, None where none were to be."""
        asked = config.workload.quality
        target = Value.of(asked.target if asked else None, "no target is published")
        if answers is None:
            return cls(Value.unknown("a load run scores its answers where it is asked to: --quality"), target)
        try:
            score = quality_of(config, answers)
        except (InputDataError, ValueError) as error:
            return cls(Value.unknown(str(error)), target)
        if score is None:
            return cls(Value.unknown("no labelled example was answered in the measured interval"), target)
        return cls(Value.of(score["figures"][0]["value"], "these examples do not tell it"), target, score)


def quality_of(config: LoadConfig, answers: LabelledAnswers) -> QualityScore | None:
    """Score what was kept, by the labels of the data set; None where nothing was. Raises InputDataError."""
    if not answers.kept:
        return None
    workload, data = config.workload, labelled_set(config)
    (metric, asked), tensors = metric_of(config), workload.outputs
    scored = []
    for number, (answer, row, error) in answers.kept.items():
        of_example = Answers(data, number, data.example(number))
        if answer is None or error is not None:
            of_example.failed(0, error or NO_ANSWER)
        else:
            of_example.answered(0, list(rows_of(answer.arrays(tensors), tensors))[row])
        scored.append(of_example.scored_by(metric))
    return score(
        metric,
        asked,
        scored,
        weights=weights_of(workload, config.entry),
        source=config.input_data if config.input_data != "dataset" else str(workload.dataset),
        size=data.size,
        samples=len(scored),
        seed=config.seed,
        continued=0,
    )
