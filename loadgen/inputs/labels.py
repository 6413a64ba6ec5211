"""The labelled data of a run, and the metric of its answers."""

from collections.abc import Sequence
from dataclasses import replace

from loadgen.inputs.sources import GENERATED, data_path
from loadgen.load.load_config import LoadConfig
from servemark.errors import InputDataError, OptionError
from servemark.quality import ctc
from servemark.quality.metric import Metric
from servemark.quality.metrics import metric_named
from servemark.quality.scoring import chosen
from servemark.workload import LabelledSet, Quality


def metric_of(config: LoadConfig) -> tuple[Metric, Quality]:
    """The metric of a configuration's workload, and what its target is of. Raises OptionError."""
    quality = config.workload.quality
    if quality is None:
        if config.workload.source:
            raise OptionError(
                f"{config.workload.name} is an imported file, and such have neither labels nor a metric",
                fix="a workload file of a few lines adds both: docs/guides/own_model.md, Labels",
            )
        raise OptionError(
            f"{config.workload.name} names no metric", fix='its workload file: quality=Quality("top-1", ...)'
        )
    return metric_named(quality.metric), quality


def labelled_set(config: LoadConfig) -> LabelledSet:
    """The labelled data that `--input-data` names, with what decodes the answers.

    Raises InputDataError, also where there are no labels, and OptionError where a language model has nothing to decode.
    """
    workload = config.workload
    if workload.labelled is None:
        reason = f": {workload.quality.unmeasured}" if workload.quality and workload.quality.unmeasured else ""
        raise InputDataError(
            f"no labels can be read for {workload.name}{reason}",
            fix="docs/guides/own_model.md, Quality, says which workloads have them",
        )
    if config.input_data in GENERATED:
        raise InputDataError(f"{config.input_data} requests have no labels", fix="--input-data dataset, or a path")
    path = data_path(config, workload.dataset)
    data = workload.labelled(path)
    if not data.size:
        raise InputDataError(f"{path} holds no labelled example", fix="docs/guides/own_model.md has the layout")
    if data.alphabet:
        decode = ctc.decoder(data.alphabet, config.language_model)
        return replace(data, prediction=lambda outputs, label: decode(data.prediction(outputs, label)))
    if config.language_model:
        raise OptionError(
            f"{workload.name} answers no log-probabilities, which --language-model decodes",
            fix="deepspeech_ctc does; or leave it out",
        )
    return data


def scorable(config: LoadConfig, most: int) -> tuple[LabelledSet, Sequence[int]]:
    """The data, and the examples that a load run sends of it: a random subset of a large set.

    Raises OptionError, InputDataError.
    """
    metric_of(config)
    data = labelled_set(config)
    if data.requests_per_example != 1:
        raise OptionError(
            f"an example of {config.workload.name} is several requests, which a load run mixes",
            fix="leave out --quality, and use `servemark quality`",
        )
    return data, chosen(data.size, most, config.seed)
