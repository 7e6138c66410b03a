"""Noise that a client adds to its sums before they leave it."""

from typing import Any

from torch import Tensor

from client_app.session import Session
from task.privacy.noisy_sums import clipped, image_norm, most_images, noisy, within
from task.privacy.zcdp import participant_sigma
from task.seeding import repeatable_bytes, secret_bytes


def with_noise(session: Session[Any], client: int, vector: Tensor, honest: int) -> Tensor:
    """Return a client's sums with noise that protects each image, or with its part of the noise.

    Args:
        session: the request, with the form of the sums.
        client: the client.
        vector: its sums, [length] int64.
        honest: with privacy for clients, how many participants' noise protects it together.
    """
    config, form = session.worker.config, session.request.form
    privacy = config.privacy
    if privacy.per_client:
        vector = clipped(vector, form, privacy.clipping_norm)
        deviation = privacy.noise_multiplier * privacy.clipping_norm
        deviation = participant_sigma(deviation, honest)
    else:
        deviation = privacy.noise_multiplier * image_norm(form)
    if deviation:
        key = session.request.attempt, client
        repeated = privacy.reproducible
        source = repeatable_bytes(config.seed, "sums", *key) if repeated else secret_bytes
        vector = noisy(vector, form, deviation, source)
    return within(vector, form, most_images(config))
