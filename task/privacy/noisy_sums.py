"""Noise on sums of features, which protects each image, or all data of a client.

An image's features z have the length 1. Its part of the sums is the matrix z z^T, of which the
upper triangle is sent, and z in the row of its class. Our norm counts numbers beside the diagonal
twice, as they stand twice in the matrix. So z z^T has the norm |z|^2. The norm of both parts is the
root of the mean of their squares: 1 for every image, up to the rounding of features.

Each number gets discrete Gaussian noise, with the same deviation in this norm. Independent noise of
deviation s_i on number i costs, as zCDP, the sum of (change of i)^2 / (2 s_i^2). This is
(norm of the change)^2 / (2 deviation^2), whatever the numbers are.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from task.config import LocalConfig
from task.errors import ConfigError
from task.privacy.discrete_gaussian import discrete_gaussian
from task.protocol.after.sums import FRACTION, MOST_IMAGES, Form
from task.seeding import ByteSource, secret_bytes

SLACK = 1e-9  # more than all errors of double precision, relative
MOST_NOISE = 1000.0  # noise multiplier; more leaves nothing of any number of images
LEAST_NORM = 0.01  # with it the noise of one of 100 participants has 10 units and more
FAR = 12  # deviations of noise that are never reached
MOST_DEVIATION = 2.0**15  # of the noise, in images: within the sampler's range


def problems(config: LocalConfig) -> Iterator[ConfigError]:
    """Yield settings of noise that have another meaning, or none, where nothing is trained."""
    privacy, method = config.privacy, f"method={config.method['name']}"
    if privacy.sampling_rate != 1:
        allowed = f"must be 1 with {method}, which reads every image once"
        yield ConfigError("privacy.sampling_rate", privacy.sampling_rate, allowed)
    if privacy.per_example and privacy.clipping_norm != 1:
        allowed = f"must be 1 with {method}, whose features have the length 1"
        yield ConfigError("privacy.clipping_norm", privacy.clipping_norm, allowed)
    if privacy.noise_multiplier > MOST_NOISE:
        allowed = f"must be at most {MOST_NOISE:g} with {method}"
        yield ConfigError("privacy.noise_multiplier", privacy.noise_multiplier, allowed)
    noise = max(privacy.noise_multiplier, 1 / MOST_NOISE)
    # The noise of one participant must not be cut off: the others' noise would protect less.
    most = min(most_images(config) / (math.sqrt(2) + FAR * noise), MOST_DEVIATION / noise)
    if not LEAST_NORM <= privacy.clipping_norm <= most:
        allowed = f"must be from {LEAST_NORM} to {most:g} with {method} and this noise, in images"
        yield ConfigError("privacy.clipping_norm", privacy.clipping_norm, allowed)


def most_images(config: LocalConfig) -> int:
    """Return how many images a client's sums may stand for, so that no sum overflows."""
    return MOST_IMAGES // config.num_clients


def scales(form: Form) -> Tensor:
    """Return what one unit of each number of a vector adds to its norm, [length] float64."""
    half = math.sqrt(0.5) if form.products else 1.0
    width = form.features if form.products else 0
    beside = torch.full((width, width), math.sqrt(2)).double() * half
    beside.diagonal().fill_(half)
    products = beside * 2.0 ** (-2 * FRACTION)
    by_class = torch.full((form.classes, form.features), half * 2.0**-FRACTION).double()
    return form.packed(products, by_class)


def norm_of(vector: Tensor, form: Form) -> float:
    """Return the norm of sums; an image's is at most `image_norm`."""
    return float(torch.linalg.vector_norm(vector.double() * scales(form)))


def image_norm(form: Form) -> float:
    """Return the largest norm of one image's part: 1 with what rounding of its features adds."""
    length = 1 + SLACK + math.sqrt(form.features) * 2.0 ** -(FRACTION + 1)
    return length**2 if form.products else length


def clipped(vector: Tensor, form: Form, most: float) -> Tensor:
    """Return sums whose norm is at most `most`.

    Larger ones are scaled down and rounded towards zero, so that rounding cannot enlarge them.

    Args:
        vector: the sums, [length] int64.
        form: of the sums.
        most: the bound, in images.
    """
    norm = norm_of(vector, form)
    if norm <= most * (1 - SLACK):
        return vector
    return (vector.double() * (most * (1 - SLACK) / norm)).trunc().long()


def noisy(
    vector: Tensor, form: Form, deviation: float, random_bytes: ByteSource = secret_bytes
) -> Tensor:
    """Return sums with discrete Gaussian noise on every number.

    Args:
        vector: the sums, [length] int64.
        form: of the sums.
        deviation: the noise's parameter in the norm of sums, above 0.
        random_bytes: returns a given number of random bytes.
    """
    found, sizes = vector.clone(), scales(form)
    for size in sizes.unique().tolist():
        places = sizes == size
        noise = discrete_gaussian(deviation / size, int(places.sum()), random_bytes)
        found[places] += torch.from_numpy(noise)
    return found


def within(vector: Tensor, form: Form, images: int) -> Tensor:
    """Return sums whose numbers are at most those that so many images can have."""
    bounds = form.bounds(images)
    return vector.clamp(min=-bounds, max=bounds)
