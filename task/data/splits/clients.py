"""Every client's training and validation images, computed for one client when it is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from task.data.dataset import Positions
from task.seeding import numpy_generator


class ClientSplit(NamedTuple):
    """One client's images, as disjoint positions in the data set."""

    train: Positions
    validation: Positions

    @property
    def whole(self) -> Positions:
        """All of them, those to train on first."""
        return np.concatenate([self.train, self.validation])


class ClientImages(Mapping[int, ClientSplit]):
    """The images of every client, by its number.

    The positions of all clients are one array, so that memory does not grow with a Python object
    for each client. A client's validation images are drawn when it is asked for.

    Args:
        positions: [N] int64, the positions of the first client, then those of the second, ...;
            each client's ascending.
        offsets: [K + 1] int64, where each client's positions begin, and the last one's end.
        seed: the experiment's.
        share: the share of each client's images that are held out for validation.
        first: the number of the first client.
        subject_of: [M] int64, the subject of each image of the data set, which is never in both a
            client's training and validation images; None if each image has its own.
    """

    def __init__(
        self,
        positions: Positions,
        offsets: Positions,
        seed: int,
        share: float,
        first: int = 0,
        subject_of: Positions | None = None,
    ) -> None:
        self.positions, self.offsets = positions, offsets
        self._seed, self._share, self._subject_of = seed, share, subject_of
        self._numbers = range(first, first + len(offsets) - 1)

    @classmethod
    def of(cls, parts: Sequence[Positions], seed: int, share: float) -> Self:
        """Return the images of clients 0 .. K - 1, from one array of positions for each."""
        offsets = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return cls(np.concatenate(parts).astype(np.int64), offsets, seed, share)

    def __getitem__(self, client: int) -> ClientSplit:
        if client not in self._numbers:
            raise KeyError(client)
        place = client - self._numbers.start
        start, end = self.offsets[place : place + 2].tolist()
        own = self.positions[start:end]
        subjects = None if self._subject_of is None else self._subject_of[own]
        return hold_out(own, self._seed, client, self._share, subjects)

    def __contains__(self, client: object) -> bool:
        return client in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def sizes(self) -> ClientSplit:
        """Return the numbers of training and of validation images, each [K].

        The clients are in ascending order. Nothing is drawn, unless images have subjects.
        """
        images = np.diff(self.offsets)
        if self._subject_of is None:
            held_out = validation_counts(images, self._share)
        else:
            held_out = np.array([len(each.validation) for each in self.values()], dtype=np.int64)
        return ClientSplit(images - held_out, held_out)

    def owners(self) -> Positions:
        """Return the place of each image's client among the clients, [N], for `positions`."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def divided_subjects(self) -> int:
        """Return how many subjects have images at more than one client."""
        if self._subject_of is None:
            return 0
        pairs = np.stack([self._subject_of[self.positions], self.owners()])
        subjects = np.unique(pairs, axis=1)[0]
        return int((np.unique(subjects, return_counts=True)[1] > 1).sum())

    def without_validation(self) -> int:
        """Return how many clients have no validation images because of their subjects."""
        if self._subject_of is None:
            return 0
        wanted = validation_counts(np.diff(self.offsets), self._share)
        return int((self.sizes().validation < np.minimum(wanted, 1)).sum())

    def held_out(self) -> NDArray[np.bool_]:
        """Return which images are for validation, [N], for `positions`; draws for every client."""
        found = np.zeros(len(self.positions), dtype=np.bool_)
        for (start, end), split in zip(pairwise(self.offsets.tolist()), self.values(), strict=True):
            found[start + np.searchsorted(self.positions[start:end], split.validation)] = True
        return found


def validation_counts(images: Positions, share: float) -> Positions:
    """Return how many of a client's images are held out, [K] int64; see `hold_out`.

    Args:
        images: [K] int64, each client's number of images.
        share: the share that is held out.
    """
    if not share:
        return np.zeros_like(images)
    wanted = np.minimum((images * share + 0.5).astype(np.int64), images - 2)
    return np.maximum(np.maximum(0, np.minimum(1, images - 1)), wanted)


def hold_out(
    positions: Positions,
    seed: int,
    client: int,
    share: float,
    subjects: Positions | None = None,
) -> ClientSplit:
    """Hold out a share of a client's images for validation.

    Of two images or more at least one is held out, and of four or more two are left to train on.
    With subjects, whole ones are held out: as many as the share allows, or else the smallest one.
    If that leaves fewer than two images to train on, none is.

    Args:
        positions: [N] int64, the client's images.
        seed: the experiment's.
        client: its number.
        share: the share that is held out.
        subjects: [N] int64, each image's subject; None if each image has its own.
    """
    if not share:
        return ClientSplit(positions, positions[:0])
    generator = numpy_generator(seed, "validation", client)
    count = int(validation_counts(np.array([len(positions)]), share)[0])
    if subjects is None:
        shuffled = generator.permutation(positions)
        return ClientSplit(np.sort(shuffled[count:]), np.sort(shuffled[:count]))
    held_out = draw_subjects(subjects, count, generator)
    return ClientSplit(positions[~held_out], positions[held_out])


def draw_subjects(
    subjects: Positions, count: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw whole subjects that have at most `count` images together.

    If each has more, the smallest one is drawn. If that leaves fewer than two images, none is.

    Args:
        subjects: [N] int64, each image's subject.
        count: the number of images.
        generator: of the client.

    Returns:
        [N] bool, true for images that are drawn.
    """
    _, subject_of, sizes = np.unique(subjects, return_inverse=True, return_counts=True)
    drawn = np.zeros(len(sizes), dtype=np.bool_)
    order = generator.permutation(len(sizes))
    room = count
    for subject in order:
        if sizes[subject] <= room:
            drawn[subject] = True
            room -= int(sizes[subject])
    if count and not drawn.any():
        smallest = min(order, key=lambda subject: sizes[subject])
        drawn[smallest] = len(subjects) - sizes[smallest] >= 2
    return drawn[subject_of]
