"""The golden server's model and everything it says of itself: KServe's, Triton's and its own endpoints."""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.golden.behaviour import Behaviour
from tests.golden.memory import Memory
from tests.golden.model import Answers
from tests.golden.record import Record


class Service:
    """The one model and its record."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.inputs, self.outputs = behaviour.input_tensors, behaviour.output_tensors
        self.answers = Answers.read(behaviour.answers, self.inputs) if behaviour.answers else None
        self.memory = Memory()
        self.connections = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything received so far; the stalls' anchor starts anew."""
        self.record = Record(self.behaviour, time.monotonic_ns())

    def metadata(self) -> dict[str, Any]:
        """The content of GET /v2/models/M."""
        lead = [-1] if self.behaviour.max_batch_size else []
        inputs, outputs = (
            [{"name": t.name, "datatype": t.datatype, "shape": [*lead, *t.dims]} for t in tensors]
            for tensors in (self.inputs, self.outputs)
        )
        name = self.behaviour.model
        if not self.behaviour.metadata:
            inputs = outputs = []
        return {"name": name, "versions": ["1"], "platform": "golden", "inputs": inputs, "outputs": outputs}

    def config(self) -> dict[str, Any]:
        """The content of GET /v2/models/M/config."""
        inputs, outputs = (
            [
                dict[str, Any]({"name": t.name, "data_type": _config_type(t.datatype), "dims": list(t.dims)})
                for t in tensors
            ]
            for tensors in (self.inputs, self.outputs)
        )
        for each in inputs:
            each["optional"] = each["name"] in self.behaviour.optional
        name, batch = self.behaviour.model, self.behaviour.max_batch_size
        return {"name": name, "backend": "golden", "max_batch_size": batch, "input": inputs, "output": outputs}

    def answer(self, path: str) -> Any:
        """Answer everything but inference and reset; None where there is no such endpoint."""
        model, extensions = f"/v2/models/{quote(self.behaviour.model, safe='')}", ["model_configuration", "statistics"]
        answers: dict[str, Callable[[], Any]] = {
            "/v2": lambda: {
                "name": "golden",
                "version": "1",
                "extensions": extensions if self.behaviour.json_only else ["binary_tensor_data", *extensions],
            },
            "/v2/health/live": dict,
            "/v2/health/ready": dict,
            "/v2/models/stats": self.record.statistics,
            "/v2/repository/index": lambda: [{"name": self.behaviour.model, "version": "1", "state": "READY"}],
            model: self.metadata,
            f"{model}/ready": dict,
            **({f"{model}/config": self.config} if self.behaviour.configuration else {}),
            f"{model}/stats": self.record.statistics,
            "/v2/systemsharedmemory/status": lambda: list(self.memory.status["system"].values()),
            "/v2/cudasharedmemory/status": lambda: list(self.memory.status["cuda"].values()),
            "/golden/log": self.record.log,
        }
        answer = answers.get(path.replace("/versions/1", "").rstrip("/"))
        return None if answer is None else answer()


def _config_type(datatype: str) -> str:
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
