"""Charges a round to the site's privacy ledger, before it is trained."""

import logging
from pathlib import Path
from typing import Any

from client_app.session import Session
from task.privacy.accounting import cost_of_training
from task.privacy.ledger import DIRECTORY, PrivacyLedger

logger = logging.getLogger("univarfl.client")


def charge_round(session: Session[Any]) -> None:
    """Charge a round of training or sums with noise to the ledger of a site with a limit.

    Each attempt is charged, because the answer of each may arrive.

    Raises:
        SiteError: the round would exceed the site's limit, or its ledger is damaged.
        OSError: the images cannot be read, or the ledger cannot be written.
    """
    site, worker = session.site, session.worker
    assert site is not None
    assert site.max_epsilon is not None
    privacy = worker.config.privacy
    ledger = PrivacyLedger(site.state_directory / DIRECTORY, site.max_epsilon, site.delta)
    images = ledger.images_of(worker.data.dataset.version, Path(site.directory))
    epsilon = ledger.charge(images, cost_of_training(privacy, worker.config.passes))
    logger.info(
        "round %d: charged, epsilon %.3f of %g at delta %g",
        session.request.round, epsilon, site.max_epsilon, site.delta,
    )  # fmt: skip
