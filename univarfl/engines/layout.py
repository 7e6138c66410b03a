"""Which processes an experiment needs; this is known before PyTorch is imported."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server_app.config.experiment import Experiment, FederationConfig
from server_app.rounds.sampling import participant_count
from task.machine.memory import processes_that_fit
from univarfl.engines.cluster import Machines


class Layout(BaseModel):
    """The settings that decide which processes an experiment needs.

    Attributes:
        engine: ``flower`` or ``inprocess``.
        device: where clients are trained.
        num_clients: the number of clients.
        rho: the share of them that a round samples.
        federation: the settings of the workers.
    """

    model_config = ConfigDict(extra="ignore", from_attributes=True, frozen=True)

    engine: Literal["flower", "inprocess"]
    device: str
    num_clients: Annotated[int, Field(ge=1)]
    rho: Annotated[float, Field(gt=0, le=1)]
    federation: FederationConfig

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Return the layout of an experiment."""
        return cls.model_validate(experiment)

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Self | None:
        """Return the layout of settings that nobody has checked; None if a value is wrong."""
        try:
            return cls.model_validate(dict(settings))
        except ValidationError:
            return None

    def own_processes(self, wanted: int = 1) -> int:
        """Return the number of workers with ``engine=inprocess``; 1 is the caller's process.

        Args:
            wanted: how many, if the settings do not say it.
        """
        return min(self.federation.workers or wanted, self._participants())

    def wanted_by_command(self, found: Machines, memory: int) -> int:
        """Return how many workers ``univarfl train`` wants: one for each GPU, else for each core.

        Args:
            found: this machine.
            memory: its free memory in bytes.
        """
        return self._gpus(found) or processes_that_fit(found.cpus, memory)

    def workers_follow_gpus(self) -> bool:
        """Return whether there is one worker for each GPU, if there are any."""
        return self.federation.workers is None and self.device != "cpu"

    def ray_actors(self, found: Machines) -> int:
        """Return the number of workers with ``engine=flower``."""
        wanted = self.federation.workers or self._gpus(found) or found.cpus
        return min(wanted, self._participants())

    def gpu_share(self, found: Machines) -> float:
        """Return the share of a GPU that each of Ray's actors gets; 0 without GPUs.

        An actor uses one GPU only, so the actors per GPU are rounded up and the share down.
        """
        if not (gpus := self._gpus(found)):
            return 0.0
        return math.floor(1000 / math.ceil(self.ray_actors(found) / gpus)) / 1000

    def _participants(self) -> int:
        return participant_count(self.num_clients, self.rho)

    def _gpus(self, found: Machines) -> int:
        return 0 if self.device == "cpu" else found.gpus
