"""Every recipe, one after the other: `python -m recipes.all`. Data that are not there are fetched first."""

from recipes import ncf_ml100k, spatial_transformer
from servemark import datasets
from servemark.datasets import ml_100k, mnist
from servemark.paths import DATA_ROOT


def main() -> None:
    """Fetch the data, train, write the weights."""
    for key in (ml_100k.KEY, mnist.KEY):
        datasets.fetch(key, DATA_ROOT)
    ncf_ml100k.main()
    spatial_transformer.main()


if __name__ == "__main__":
    main()
