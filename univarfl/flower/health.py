"""Whether a SuperLink or its gate answers, and which time it has."""

import contextlib
import json
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException, RemoteDisconnected
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import (
    BaseHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    build_opener,
)

HEALTH_SECONDS = 5.0
HEALTH_BYTES = 10_000
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


class Health(NamedTuple):
    """What a SuperLink or its gate answers.

    Attributes:
        ready: whether it is ready.
        time: its time; None if it does not tell it.
        received: this machine's time when it answered.
    """

    ready: bool
    time: datetime | None
    received: datetime


class NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: whoever answers must not choose where this machine connects to."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the redirect is an error."""


def is_healthy(address: str, authority: Path | None = None, own: bool = False) -> bool:
    """Whether a SuperLink answers at an address; arguments and errors are those of `health`."""
    return health(address, authority, own).ready


def health(address: str, authority: Path | None = None, own: bool = False) -> Health:
    """Ask a SuperLink or its gate, through TLS if an authority is given, whether it is ready.

    No proxy is used within this machine.

    Args:
        address: HOST:PORT.
        authority: the certificate that must have signed the SuperLink's own.
        own: whether it is at an address of this machine, which its certificate need not name.

    Raises:
        OSError: the SuperLink cannot be reached, or the authority did not sign its certificate.
    """
    context = ssl.create_default_context(cafile=str(authority)) if authority else None
    if context and own:
        context.check_hostname = False
    url = f"{'https' if authority else 'http'}://{address}/health"
    handlers: list[BaseHandler] = [NoRedirects(), HTTPSHandler(context=context)]
    if own or urlsplit(url).hostname in LOOPBACK_NAMES:
        handlers.append(ProxyHandler({}))
    try:
        opener = build_opener(*handlers)
        with opener.open(url, timeout=HEALTH_SECONDS) as answer:
            received = datetime.now(tz=UTC)
            told = told_time(answer.read(HEALTH_BYTES), answer.headers.get("Date"))
            return Health(answer.status == 200, told, received)
    except RemoteDisconnected:  # it may be starting, or too busy
        raise
    except HTTPException as error:
        raise OSError(f"the answer is not HTTP ({type(error).__name__})") from None


def told_time(body: bytes, date: str | None) -> datetime | None:
    """Return the time in the gate's answer, or else in the ``Date`` header; None for neither."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return datetime.fromisoformat(json.loads(body)["time"]).astimezone(UTC)
    with contextlib.suppress(ValueError, TypeError):
        return parsedate_to_datetime(str(date)).astimezone(UTC)
    return None
