"""The model behind every product: one session of ONNX Runtime, made as servemark's own backend makes it."""

import json
from pathlib import Path

import numpy as np
import onnxruntime

JOB = json.loads(Path(__file__).with_name("job.json").read_text())
"""The deployment and its ports."""
BATCHES = JOB["queue_delay_s"] is not None
"""True if the product is to join requests."""


class OnnxModel:
    """The session, and samples of JSON as its arrays."""

    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = JOB["threads"]
        options.log_severity_level = 3
        for key, value in JOB["session_entries"].items():
            options.add_session_config_entry(key, value)
        self._session = onnxruntime.InferenceSession(JOB["artifact"], options, providers=["CPUExecutionProvider"])
        self._inputs = {each["name"]: np.dtype(each["dtype"]) for each in JOB["inputs"]}
        self._outputs = [each["name"] for each in JOB["outputs"]]

    def run(self, arrays):
        """Answer a batch: input name -> array, to output name -> array."""
        return dict(zip(self._outputs, self._session.run(self._outputs, arrays)))

    def answer(self, samples):
        """Answer samples of JSON, each an object of its inputs, or the value of the only input.

        Samples of equal shapes are computed together, as Triton does it.
        """
        arrays = [self._arrays(sample) for sample in samples]
        groups = {}
        for place, sample in enumerate(arrays):
            groups.setdefault(tuple(array.shape for array in sample.values()), []).append(place)
        answers = [None] * len(samples)
        for places in groups.values():
            for place, answer in zip(places, self._computed([arrays[each] for each in places])):
                answers[place] = answer
        return answers

    def _arrays(self, sample):
        if not isinstance(sample, dict):
            sample = {next(iter(self._inputs)): sample}
        return {name: np.asarray(sample[name], dtype) for name, dtype in self._inputs.items()}

    def _computed(self, samples):
        if not JOB["max_batch"]:
            found = [self.run(sample) for sample in samples]
            return [{name: array.tolist() for name, array in answer.items()} for answer in found]
        found = self.run({name: np.stack([sample[name] for sample in samples]) for name in self._inputs})
        lists = {name: array.tolist() for name, array in found.items()}
        return [{name: rows[place] for name, rows in lists.items()} for place in range(len(samples))]
