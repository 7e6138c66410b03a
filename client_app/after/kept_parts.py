"""A site's own parts of final models, in the directory that its owner has named."""

import logging
from collections.abc import Callable
from pathlib import Path

from client_app.client_state import ClientState
from task.errors import SiteError
from task.machine.files import create_whole, make_private, require_space
from task.site import Site
from task.tensors import Tensors
from task.training.personal.part import PERSONAL
from task.training.personal.part_file import SUFFIX, part_file

HASH_DIGITS = 12  # of the model's hash in the name of a directory
MAX_MODELS = 1000  # that a site keeps

logger = logging.getLogger("univarfl.client")


class KeptParts:
    """The parts that a site keeps of one run: ``run-KEY-HASH/CLIENT.safetensors``.

    KEY is the ``key`` of the ``run.json``, HASH the beginning of its ``model_sha256``. The key has
    letters, digits, ``_`` and ``-`` alone, so it cannot lead to another directory. A part that is
    kept is never replaced, whatever a later request asks.

    Args:
        place: the directory of all models that the site keeps.
        run: the run's key.
        spare: how many megabytes of the disk stay free.
    """

    def __init__(self, place: Path, run: str, spare: int = 0) -> None:
        self._place, self._run, self._spare = place, run, spare

    def __bool__(self) -> bool:
        return any(self._place.glob(f"run-{self._run}-{'?' * HASH_DIGITS}/*{SUFFIX}"))

    def keep(self, client: int, model: str, part: Callable[[], Tensors]) -> None:
        """Write a part, if the site has none of this run and model.

        Args:
            client: the site's number.
            model: the SHA-256 of the file with the shared part.
            part: returns the entries of the ``state_dict`` that are the site's own.

        Raises:
            SiteError: the site keeps too many models.
            SpaceError: it would leave less of the disk free than the site's owner wants.
            OSError: it cannot be written.
        """
        directory = self._place / f"run-{self._run}-{model[:HASH_DIGITS]}"
        if any(directory.glob(f"*{SUFFIX}")):
            return
        make_private(self._place)
        if sum(1 for _ in self._place.iterdir()) >= MAX_MODELS:
            raise SiteError(f"its models-dir has {MAX_MODELS} models, the limit; delete old ones")
        content = part_file(part(), model)
        require_space(self._place, len(content), self._spare)
        make_private(directory)
        path = directory / f"{client}{SUFFIX}"
        create_whole(path, content)
        logger.info("the site's part of the final model is in %s", path)


def delete_unless_awaited(run: str, site: Site, directory: Path) -> None:
    """Delete a site's state of a completed run, unless its part of the model is still to be kept.

    Args:
        run: the run's key.
        site: the site.
        directory: where its owner wants the parts.
    """
    state = ClientState(run, site=site)
    if KeptParts(directory, run) or not state.has(PERSONAL):
        state.delete()
    else:
        logger.warning("the site's part of the model was not kept: %s stays", state.directory)
