"""A site's own log, on standard output."""

import logging
import sys

from task.plain_text import PlainFormatter

logger = logging.getLogger("univarfl.client")


def write_site_log() -> None:
    """Send the log of this process's work to standard output."""
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(PlainFormatter("%(asctime)s univarfl %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
