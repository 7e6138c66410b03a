"""One process of an experiment: the data on its device, one model, one trainer."""

import functools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from task.config import LocalConfig
from task.data.batches import DeviceImages
from task.data.dataset import ImageDataset
from task.data.federated import federate
from task.errors import ConfigError, SiteError
from task.given_weights import WEIGHTS_HASH
from task.models.base import checked_network
from task.models.layers.norm import measure_statistics
from task.optim.parameters import trained_parameters
from task.registry import named
from task.rules import read_local_config
from task.seeding import derived_seed, torch_generator
from task.site import Site
from task.tensors import Tensors
from task.training.device import choose_device, prepare_process, set_precision
from task.training.evaluation import Metrics, Score, compute_metrics, evaluate
from task.training.loop import LocalResult, LocalTrainer
from task.training.personal.part import PersonalPart, without_personal
from task.training.transfer import to_device

NOTHING: Tensors = MappingProxyType({})
FEATURES = "task.training.features:FrozenFeatures"
STARTING = "task.training.starting_weights:start_from_cache"
SITE_DATA = "task.data.site_data:federate_site"
NUMBER_BYTES = 4  # of a parameter, in float32
STATISTICS_PIXELS = 500_000  # of a batch; the same on all devices, so that bits are equal


class Worker:
    """Trains and evaluates any client of an experiment, one after another.

    Built once per process: the images go to the device once, and the model and the optimizer are
    reset in place for each client.

    Args:
        config: the experiment.
        site: this machine's settings, if it is a client with its own data.

    Raises:
        ConfigError: the settings of data, clients and model contradict each other.
        DataError: the data set cannot be read.
        DeviceError: the configured device does not exist.
        SiteError: the site's owner does not allow the experiment.
    """

    def __init__(self, config: LocalConfig, site: Site | None = None) -> None:
        prepare_process()
        self.config = config
        self.device = choose_device(site.device if site else config.device)
        set_precision(config.runtime.precision, self.device)
        self.data = federate(config) if site is None else named(SITE_DATA)(config, site)
        if site is not None:
            check_model_size(config, self.data.dataset, site)
        self.method = config.local_method()
        plain = build_model_for(config, self.data.dataset)
        if WEIGHTS_HASH in config.model:
            named(STARTING)(plain, config.model[WEIGHTS_HASH])
        adapt(config, plain, self.data.dataset)
        try:
            model = self.method.build(plain, torch_generator(config.seed, "method"))
        except ConfigError as error:
            raise error.under("method") from None
        self.model = model.to(self.device).to(memory_format=torch.channels_last)
        frozen = config.tuning().freeze(self.model)
        own = set(self.method.personal(self.model)) - set(frozen)
        if config.personalised and not own:
            allowed = f"model={config.model['name']} has no layer that it could keep at the client"
            raise ConfigError("method", config.method["name"], allowed)
        self.personal = PersonalPart(self.model, own, frozen)
        self.images: DeviceImages
        if self._has_fixed_features:
            keep_free = site.keep_free_megabytes if site else 0
            self.images = named(FEATURES)(config, self.data.dataset, self.model, keep_free)
        else:
            self.images = DeviceImages(self.data.dataset, self.device, config.mean_and_std)
        if not self.personal.shared:
            allowed = f"leaves nothing to share with method={config.method['name']}"
            raise ConfigError("tune", config.tune["name"], f"{allowed}; choose another")

    @property
    def _has_fixed_features(self) -> bool:
        """Whether an image has the same features in each step, so that they are computed once."""
        config = self.config
        return (
            config.tuning().head_alone
            and config.network().takes_features
            and config.augmentation["name"] == "none"
            and not config.runtime.graphed  # a recorded step cannot read a file
            and not any(member.mixes_labels for member in self.method.members())
        )

    @functools.cached_property
    def trainer(self) -> LocalTrainer:
        """The trainer, built and compiled at its first use, since the server does not train."""
        trainer = self._new_trainer()
        trainer.compile(self.images)
        return trainer

    def _new_trainer(self) -> LocalTrainer:
        if self.method.closed_form or not self.config.privacy.per_example:
            return LocalTrainer(self.model, self.method, self.config)
        # Imported here because opacus takes seconds to import, and few runs need it.
        from task.training.private import PrivateTrainer  # noqa: PLC0415

        return PrivateTrainer(self.model, self.method, self.config)

    def masked_terms(self) -> Sequence[str]:
        """Return the names of the loss terms in a masked sum: none with noise at the clients."""
        return () if self.config.privacy.private else list(self.method.reported_terms())

    @property
    def model_bytes(self) -> int:
        """The size of the model's ``state_dict`` in bytes."""
        return sum(value.nbytes for value in self.model.state_dict().values())

    def train(
        self,
        weights: Tensors,
        server_round: int,
        client: int,
        state: Tensors = NOTHING,
        broadcast: Tensors = NOTHING,
        deadline: float = math.inf,
    ) -> LocalResult:
        """Train one client, starting from the global weights; see `LocalTrainer.train`."""
        prepare_process()
        positions = self.images.index(self.data.clients[client].train)
        result = self.trainer.train(
            self.personal.complete(weights, state), self.images, positions, server_round, client,
            without_personal(state), broadcast, deadline,
        )  # fmt: skip
        return self.personal.split(result)

    def validate(self, weights: Mapping[str, Tensor], clients: Sequence[int]) -> list[Score]:
        """Return the score of the weights on each client's validation images.

        They are the weights of the whole model: no part of it stays with the clients.
        """
        self.load(weights)
        sets = [self.images.index(self.data.clients[client].validation) for client in clients]
        return evaluate(self.model, self.images, sets)

    def validate_personal(self, weights: Tensors, client: int, state: Tensors) -> Score:
        """Return the score of a client's own model on its validation images.

        Args:
            weights: the shared part of the model.
            client: the client.
            state: what it keeps, with its own part.
        """
        self._load_own(weights, client, state)
        positions = self.images.index(self.data.clients[client].validation)
        (score,) = evaluate(self.model, self.images, [positions])
        return score

    def personal_part(self, weights: Tensors, client: int, state: Tensors) -> dict[str, Tensor]:
        """Return a client's part of the model, on the CPU, as `validate_personal` scores it."""
        self._load_own(weights, client, state)
        return self.personal.of(self.model)

    def _load_own(self, weights: Tensors, client: int, state: Tensors) -> None:
        """Load a client's own model, as it is scored."""
        self.load(self.personal.complete(weights, state))
        self.measure_own_statistics(self.model, client)

    def measure_own_statistics(self, model: nn.Module, client: int) -> None:
        """Measure a model's batch norm on a client's training images, if the method does.

        Args:
            model: the worker's, or a copy; it is on the worker's device.
            client: the client.
        """
        if self.method.measures_statistics():
            draws = torch_generator(self.config.seed, "statistics", client)
            train = self.images.index(self.data.clients[client].train)
            order = torch.randperm(len(train), generator=draws).to(self.device)
            batch = max(2, self.images.images_per(STATISTICS_PIXELS))  # one row has no variance
            parts = train[order].tensor_split(max(1, len(train) // batch))
            measure_statistics(model, (self.images[part][0] for part in parts))

    def test(self, weights: Mapping[str, Tensor], *, by_class: bool = False) -> Metrics:
        """Return every metric of the weights on the held-out test set; see `compute_metrics`.

        There is none if a part of the model stays with the clients.
        """
        if self.personal:
            return Metrics({}, {})
        self.load(weights)
        positions = self.images.index(self.data.dataset.test)
        return compute_metrics(self.model, self.images, positions, by_class=by_class)

    def broadcast(self) -> Tensors:
        """Return what the method's server update sends before the first round, if anything."""
        if not any(member.server_update for member in self.method.members()):
            return NOTHING
        initial = self.initial_weights()
        names = trained_parameters(self.model)
        update = self.method.server({name: initial[name] for name in names})
        return update.broadcast() if update else NOTHING

    def initial_weights(self) -> dict[str, Tensor]:
        """Return the global weights before the first round, drawn from the experiment's seed.

        They are the shared part of the model; the part of the clients is not among them.
        """
        return {name: value.clone() for name, value in self.personal.shared.items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights into the model, with what is frozen, and prepare the process."""
        prepare_process()
        self.model.load_state_dict(to_device({**self.personal.frozen, **weights}, self.device))


def build_model_for(config: LocalConfig, dataset: ImageDataset) -> nn.Module:
    """Return the experiment's network for the images of a data set; see `build_model`."""
    _, size, _, channels = dataset.images.shape
    return build_model(config, size, channels, len(dataset.classes))


def adapt(config: LocalConfig, model: nn.Module, dataset: ImageDataset) -> None:
    """Add to an experiment's network what its ``tune`` trains in addition; see `Tuning.adapt`."""
    _, height, width, channels = dataset.images.shape
    draws = torch_generator(config.seed, "tune")
    config.tuning().adapt(model, (1, channels, height, width), draws)


def check_model_size(config: LocalConfig, dataset: ImageDataset, site: Site) -> None:
    """Check a model's size against its site's limit, before anything of it is allocated.

    Raises:
        SiteError: it is larger.
    """
    with torch.device("meta"):
        model = config.network().build(dataset.images.shape[-1], len(dataset.classes))
    added = config.local_method().added_numbers(model) + config.tuning().added_numbers(model)
    own = sum(value.nbytes for value in model.state_dict().values())
    megabytes = (own + NUMBER_BYTES * added) / 1e6
    if megabytes > site.max_model_megabytes:
        raise SiteError(
            f"site {site.name} trains models of at most {site.max_model_megabytes} MB (its "
            f"max-model-megabytes), and the experiment's has {megabytes:,.0f} MB"
        )


def build_model(config: LocalConfig, size: int, channels: int, classes: int) -> nn.Module:
    """Return the experiment's network with its initial weights, drawn from the seed.

    Args:
        config: the experiment.
        size: height and width of the images, in pixels.
        channels: of the images.
        classes: the number of classes.

    Raises:
        ConfigError: the images are too small for the network.
    """
    settings = config.network()
    if size < settings.least_image_size:
        allowed = f"model {config.model['name']} needs {settings.least_image_size} pixels or more"
        raise ConfigError("data.image_size", size, allowed)
    with torch.random.fork_rng(devices=[]):
        # The CPU's generator; `torch.manual_seed` would also seed the GPUs'.
        torch.default_generator.manual_seed(derived_seed(config.seed, "model"))
        try:
            network = settings.build(channels, classes)
        except ConfigError as error:
            raise error.under("model") from None
        return checked_network(network, config.model["name"])


@functools.lru_cache(maxsize=1)
def shared_worker(experiment: str, site: Site | None = None, version: str = "") -> Worker:
    """Return this process's worker for an experiment, built at the first call.

    Args:
        experiment: a `LocalConfig` as JSON.
        site: as for `Worker`.
        version: the state of the site's images; another one needs another worker.
    """
    return Worker(read_local_config(experiment), site)
