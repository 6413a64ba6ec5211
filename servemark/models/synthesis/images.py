"""Pictures with the statistics of natural images.

The pool of pictures has a constant seed, so every process draws from the same; the caller's generator draws.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]

IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
IMAGENET_STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
POOL_SIZE = 64
CHANNEL_CORRELATION = 0.9
REQUEST_NOISE = 0.02
"""Standard deviation added to every request on the scale [0, 1], so that no cache can answer for the model."""
POOL_SEED = 20200413


class ImagePool(Sequence[Image]):
    """Pictures [3, height, width] in [0, 1] with the statistics of natural images, each made when it is first drawn.

    The amplitude spectrum falls as 1/f (Field 1987, "Relations between the statistics of natural images"), channels
    are correlated, and each has ImageNet's mean and standard deviation.
    """

    def __init__(self, height: int, width: int) -> None:
        self._noise_shape = (4, height, width)
        self._rng = np.random.default_rng([POOL_SEED, height, width])
        self._states = [self._rng.bit_generator.state]
        self._made: dict[int, Image] = {}
        frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
        self._amplitude = 1 / np.maximum(frequency, 1 / max(height, width))

    def __len__(self) -> int:
        return POOL_SIZE

    def __getitem__(self, index: Any) -> Any:
        """A picture by its number. Raises IndexError."""
        if not 0 <= index < POOL_SIZE:
            raise IndexError(f"picture {index} of {POOL_SIZE}")
        if index not in self._made:
            self._made[index] = self._make(int(index))
        return self._made[index]

    def _make(self, index: int) -> Image:
        # One generator goes through all pictures in their order: skipped ones are drawn too, which is the cheap part.
        while len(self._states) <= index:
            self._draw(len(self._states) - 1)
            self._states.append(self._rng.bit_generator.state)
        drawn = self._draw(index)
        noise = np.fft.irfft2(np.fft.rfft2(drawn) * self._amplitude, s=drawn.shape[1:])
        noise -= noise.mean(axis=(1, 2), keepdims=True)
        noise /= noise.std(axis=(1, 2), keepdims=True)
        mixed = np.sqrt(CHANNEL_CORRELATION) * noise[:1] + np.sqrt(1 - CHANNEL_CORRELATION) * noise[1:]
        made: Image = np.clip(mixed * IMAGENET_STD + IMAGENET_MEAN, 0, 1).astype(np.float32)
        made.setflags(write=False)
        return made

    def _draw(self, index: int) -> npt.NDArray[np.float64]:
        """The white noise of a picture whose state of the generator is known."""
        self._rng.bit_generator.state = self._states[index]
        return self._rng.standard_normal(self._noise_shape)


@lru_cache(maxsize=4)
def image_pool(height: int, width: int) -> ImagePool:
    """The pool of pictures of one size."""
    return ImagePool(height, width)


def picture(rng: np.random.Generator, height: int, width: int) -> Image:
    """Draw a picture [3, height, width] in [0, 1], never the same twice."""
    pool = image_pool(height, width)
    drawn = pool[rng.integers(POOL_SIZE)]
    noise = rng.standard_normal(drawn.shape, dtype=np.float32) * np.float32(REQUEST_NOISE)
    noisy: Image = np.clip(drawn + noise, 0, 1)
    return noisy


def image(rng: np.random.Generator, height: int, width: int) -> Image:
    """Draw a picture [3, height, width], normalised by ImageNet's mean and deviation."""
    normalised: Image = (picture(rng, height, width) - IMAGENET_MEAN) / IMAGENET_STD
    return normalised
