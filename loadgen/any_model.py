"""Any model that a KServe v2 server has: `locust -f loadgen/any_model.py --model-name NAME --url http://HOST:PORT`."""

from loadgen.users import InferenceUser


class AnyModel(InferenceUser):
    """Drives a model by what its server says of it."""

    @classmethod
    def models(cls) -> list[str]:
        """None by name: the server has them."""
        return []
