"""A completed run with its models, and the samples of images that measures use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from server_app.aggregation.weights import Readable, Weights, to_tensors
from server_app.config.vocabulary import nearest
from server_app.runs.records.client_counts import recorded_counts
from task.analysis.curvature import Eigenpairs, Hessian, top_eigenpairs
from task.config import LocalConfig
from task.errors import ConfigError
from task.seeding import numpy_generator, torch_generator
from task.training.worker import Worker, shared_worker
from univarfl.records.reader import Run
from univarfl.records.round_models import KeptModels, kept_rounds, load_models
from univarfl.records.trained import final_weights, layers_differ, local_config_of

LEAST_IMAGES = 2
CLASSIFIER = "classifier.weight"  # absent if the classifier is not a linear layer
KEPT_MODELS = "the models of single rounds (train with watch.models_every=N)"
TOLERANCE = 1e-2  # relative error of eigenvalues


@dataclass(frozen=True)
class AnalysedRun:
    """A run to be measured.

    Attributes:
        run: its record.
        images: the largest number of images to sample from each client and from the test set.
        class_name: the class of measures that show one class; None for the first.
    """

    run: Run
    images: int
    class_name: str | None = None

    @cached_property
    def config(self) -> LocalConfig:
        """The settings of its local training."""
        return local_config_of(self.run)

    @cached_property
    def weights(self) -> Weights:
        """The weights of the final global model."""
        return final_weights(self.run)

    @cached_property
    def kept(self) -> Mapping[int, Path]:
        """By round, the file of the models that were kept."""
        return kept_rounds(self.run.directory)

    def rounds(self) -> Iterator[tuple[int, KeptModels]]:
        """Yield each kept round and its models."""
        for server_round, path in self.kept.items():
            yield server_round, load_models(path)

    @cached_property
    def last_client_models(self) -> Mapping[int, Readable]:
        """Each client's model in the last kept round; empty if none was kept."""
        return load_models(list(self.kept.values())[-1]).clients if self.kept else {}

    @property
    def missing_client_models(self) -> str:
        """What the run lacks for measures of `last_client_models`; empty if it lacks nothing."""
        if not self.kept:
            return KEPT_MODELS
        return "" if self.last_client_models else "a client's model in the last kept round"

    @property
    def missing_for_diagonal(self) -> str:
        """What the network lacks for an exact diagonal of the Hessian; empty if it lacks nothing.

        `task.analysis.curvature.diagonal` is exact for piecewise linear networks. FedETF's
        classifier normalises the features, so it is none.
        """
        if not self.config.keeps_statistics:
            return "model.norm=batch"
        return "" if CLASSIFIER in self.weights else "a linear classifier"

    @property
    def last_round(self) -> int:
        """The run's last round."""
        return self.run.record.last_round

    @property
    def worker(self) -> Worker:
        """The run's data and network, in this process.

        Raises:
            ConfigError: the data set or its split has changed since the run.
        """
        worker = shared_worker(self.config.model_dump_json())
        if worker.config.partitioner().sites:
            return worker
        restore = "restore those of the run, or use the version of univarfl that made it"
        if self.run.record.data_version not in (None, worker.data.dataset.content):
            raise ConfigError("run", self.run.directory, f"its images have changed; {restore}")
        sizes = np.sum(worker.data.clients.sizes(), axis=0).tolist()
        if sizes and recorded_counts(sizes) != self.run.data.clients:
            problem = f"its clients now have other numbers of images; {restore}"
            raise ConfigError("run", self.run.directory, problem)
        return worker

    @cached_property
    def clients(self) -> dict[int, Tensor]:
        """By client, the indices of a sample of its training images, [n] on the device.

        Without clients that have fewer than two images, and without real sites, whose images are
        on other machines.
        """
        return {
            client: self._sample(split.train, "client", client)
            for client, split in self.worker.data.clients.items()
            if len(split.train) >= LEAST_IMAGES
        }

    @cached_property
    def test(self) -> Tensor:
        """The indices of a sample of the test images, [n] on the device; may be empty."""
        return self._sample(self.worker.data.dataset.test, "test", 0)

    @property
    def every_training_image(self) -> NDArray[np.int64]:
        """The indices of all clients' training images, [n]."""
        return np.concatenate([split.train for split in self.worker.data.clients.values()])

    def mixed(self, most: int) -> Tensor:
        """Return the indices of a sample of all clients' training images, [n] on the device.

        They are at most `most`, and at most as many as in all of `clients`.
        """
        most = min(most, sum(map(len, self.clients.values())))
        return self._sample(self.every_training_image, "mixed", 0, most)

    @property
    def class_number(self) -> int:
        """The number of the class of measures that show one class.

        Raises:
            ConfigError: the data set has no class of this name.
        """
        names = self.worker.data.dataset.classes
        if self.class_name is None:
            return 0
        if self.class_name not in names:
            near = nearest(self.class_name, names)
            answer = f"did you mean {near}?" if near else f"choose one of {', '.join(names)}"
            raise ConfigError("--class", self.class_name, answer)
        return names.index(self.class_name)

    @cached_property
    def test_of_class(self) -> Tensor:
        """The indices of a sample of one class's test images, [n] on the device; may be empty."""
        dataset = self.worker.data.dataset
        of_class = dataset.test[dataset.labels[dataset.test] == self.class_number]
        return self._sample(of_class, "class", self.class_number)

    @property
    def shares(self) -> list[float]:
        """Each client's share of the training images of all `clients`, in their order."""
        sizes = [len(self.worker.data.clients[client].train) for client in self.clients]
        return [size / sum(sizes) for size in sizes]

    def model(self, weights: Readable | None = None) -> nn.Module:
        """Return the network with these weights, by default the final ones, in eval mode.

        Every call loads them into the same network.

        Raises:
            ConfigError: the weights do not fit the network of this version.
        """
        model = self.worker.model
        whole = {**self.weights, **(weights or {})}  # what is frozen is in the final weights alone
        try:
            model.load_state_dict(to_tensors(whole))
        except RuntimeError:
            raise layers_differ(self.run) from None
        return model.eval()

    @cached_property
    def eigenpairs(self) -> Eigenpairs:
        """The two largest eigenvalues of the federation's Hessian, with their eigenvectors."""
        parts = zip(self.clients.values(), self.shares, strict=True)
        shares = torch.cat([torch.full((len(of),), share / len(of)) for of, share in parts])
        positions = torch.cat(list(self.clients.values()))
        hessian = Hessian(self.model(), self.worker.images, positions, shares)
        generator = torch_generator(self.config.seed, "analysis", "eigenvectors")
        with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
            return top_eigenpairs(hessian, 2, generator, TOLERANCE)

    def _sample(
        self, positions: NDArray[np.int64], what: str, client: int, most: int | None = None
    ) -> Tensor:
        generator = numpy_generator(self.config.seed, "analysis", what, client)
        chosen = generator.permutation(positions)[: self.images if most is None else most]
        return torch.from_numpy(np.sort(chosen)).to(self.worker.device)
