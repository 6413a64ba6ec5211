"""Quality of a load run's answers: `run --quality`."""

from loadgen.driver.labelled import LabelledAnswers
from loadgen.inputs.labels import labelled_set, metric_of
from loadgen.load.load_config import LoadConfig
from servemark.quality.document import score, weights_of
from servemark.quality.scoring import NO_ANSWER, Answers, rows_of
from servemark.results.schema.score import QualityScore


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
