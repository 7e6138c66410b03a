"""What is analysed: a completed run, its models, and the images they are looked at with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from server_app.report.records import Run
from server_app.round_models import RoundModels, kept_rounds, load_models
from server_app.trained import other_layers, settings_of, weights_of
from server_app.weights import Readable, Weights, to_tensors
from task.analysis.curvature import Eigenpairs, Hessian, top_eigenpairs
from task.config import LocalConfig
from task.errors import ConfigError
from task.seeding import numpy_generator, torch_generator
from task.worker import Worker, shared_worker

LEAST_IMAGES = 2
KEPT_MODELS = "models of single rounds (train with watch.models_every=1, or every so many)"
TOLERANCE = 1e-2  # of eigenvalues, relative


@dataclass(frozen=True)
class Subject:
    """A run to be analysed.

    Attributes:
        run: its record.
        images: at most so many of each client's images, and of the test set's, are looked at.
    """

    run: Run
    images: int

    @cached_property
    def config(self) -> LocalConfig:
        """What its clients were told."""
        return settings_of(self.run)

    @cached_property
    def weights(self) -> Weights:
        """The final global model."""
        return weights_of(self.run)

    @cached_property
    def kept(self) -> Mapping[int, Path]:
        """The rounds whose models were kept."""
        return kept_rounds(self.run.directory)

    def rounds(self) -> Iterator[tuple[int, RoundModels]]:
        """Those models, round by round."""
        for server_round, path in self.kept.items():
            yield server_round, load_models(path)

    @property
    def last_round(self) -> int:
        """The run's number of rounds."""
        return int(self.run.config["rounds"])

    @property
    def worker(self) -> Worker:
        """The run's data and network, in this process.

        Raises:
            ConfigError: the data are not those that it was trained on.
        """
        worker = shared_worker(self.config.model_dump_json())
        sizes = [len(train) + len(rest) for train, rest in worker.data.clients.values()]
        if (
            sizes
            and not worker.config.divider().sites
            and sizes != self.run.record["data"]["clients"]
        ):
            said = "its data are divided otherwise now; put the images back, or use its own version"
            raise ConfigError("run", self.run.directory, said)
        return worker

    @cached_property
    def clients(self) -> dict[int, Tensor]:
        """By client that has some here, a sample of its training images; none of real sites'."""
        return {
            client: self._sample(split.train, "client", client)
            for client, split in self.worker.data.clients.items()
            if len(split.train) >= LEAST_IMAGES
        }

    @cached_property
    def test(self) -> Tensor:
        """A sample of the test images; it may be empty."""
        return self._sample(self.worker.data.dataset.test, "test", 0)

    @property
    def shares(self) -> list[float]:
        """What part of all training images each of `clients` has."""
        sizes = [len(self.worker.data.clients[client].train) for client in self.clients]
        return [size / sum(sizes) for size in sizes]

    def model(self, weights: Readable | None = None) -> nn.Module:
        """The network with these weights, or the final global ones; there is only one network."""
        model = self.worker.model
        try:
            model.load_state_dict(to_tensors(weights or self.weights))
        except RuntimeError:
            raise other_layers(self.run) from None
        return model.eval()

    @cached_property
    def eigenpairs(self) -> Eigenpairs:
        """The two largest eigenvalues of the federation's Hessian, and their vectors."""
        parts = zip(self.clients.values(), self.shares, strict=True)
        shares = torch.cat([torch.full((len(of),), share / len(of)) for of, share in parts])
        positions = torch.cat(list(self.clients.values()))
        hessian = Hessian(self.model(), self.worker.images, positions, shares)
        generator = torch_generator(self.config.seed, "analysis", "eigenvectors")
        return top_eigenpairs(hessian, 2, generator, TOLERANCE)

    def _sample(self, positions: NDArray[np.int64], what: str, client: int) -> Tensor:
        generator = numpy_generator(self.config.seed, "analysis", what, client)
        chosen = generator.permutation(positions)[: self.images]
        return torch.from_numpy(np.sort(chosen)).to(self.worker.device)
