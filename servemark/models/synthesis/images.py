"""Pictures with the statistics of natural images.

The pool of pictures has a constant seed, so every process draws from the same; the caller's generator draws.
"""

from functools import lru_cache

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


@lru_cache(maxsize=4)
def image_pool(height: int, width: int) -> Image:
    """Make pictures [POOL_SIZE, 3, height, width] in [0, 1] with the statistics of natural images.

    The amplitude spectrum falls as 1/f (Field 1987, "Relations between the statistics of natural images"), channels
    are correlated, and each has ImageNet's mean and standard deviation.
    """
    rng = np.random.default_rng([POOL_SEED, height, width])
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    amplitude = 1 / np.maximum(frequency, 1 / max(height, width))
    pool = np.empty((POOL_SIZE, 3, height, width), np.float32)
    for each in pool:
        noise = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((4, height, width))) * amplitude, s=(height, width))
        noise -= noise.mean(axis=(1, 2), keepdims=True)
        noise /= noise.std(axis=(1, 2), keepdims=True)
        mixed = np.sqrt(CHANNEL_CORRELATION) * noise[:1] + np.sqrt(1 - CHANNEL_CORRELATION) * noise[1:]
        each[:] = np.clip(mixed * IMAGENET_STD + IMAGENET_MEAN, 0, 1)
    pool.setflags(write=False)
    return pool


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
