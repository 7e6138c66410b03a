"""A SuperLink and Ray that the runs of a sweep use one after another."""

from server_app.config.experiment import Experiment
from univarfl.engines.early import ray_cpus_for
from univarfl.engines.layout import Layout
from univarfl.engines.superlink import RunningSuperLink, SuperLink
from univarfl.flower.programs import FlowerError


class SharedSuperLink:
    """Starts a SuperLink and Ray with the first run that needs them, and keeps them.

    Each run has a server and workers of its own, so it leaves nothing to the next. After a failed
    run, and for another number of workers, SuperLink and Ray are started again.
    """

    def __init__(self) -> None:
        self._superlink: SuperLink | None = None

    def lend(self, experiment: Experiment) -> RunningSuperLink | None:
        """Return the SuperLink for a run in another process.

        None if the run needs none, or if none can be started. The run then finds the reason itself.
        """
        if experiment.engine != "flower":
            return None
        ray_cpus = ray_cpus_for(Layout.of(experiment))
        if self._superlink is not None and self._superlink.ray_cpus != ray_cpus:
            self.end()
        if self._superlink is None:
            self._superlink = SuperLink(ray_cpus)
            try:
                self._superlink.__enter__().wait_until_ready()
                self._superlink.wait_for_ray()
            except (FlowerError, OSError):
                self.end()
                return None
        return RunningSuperLink(self._superlink.home, self._superlink.pid, ray_cpus)

    def end(self) -> None:
        """End what was started; a second call does nothing."""
        if self._superlink is not None:
            self._superlink.end()
            self._superlink = None
