"""Whether a coordinator answers at an address, with the right certificate and the same time."""

import errno
import re
import socket
import ssl
import time
import urllib.error
from datetime import UTC, datetime, timedelta
from pathlib import Path

from task.errors import system_reason
from univarfl.deploy.gate.authentication import AHEAD, BEHIND
from univarfl.flower.health import Health, health

# One second less than Flower allows, as a Date header is exact to one second.
MOST_AHEAD, MOST_BEHIND = timedelta(seconds=AHEAD - 1), timedelta(seconds=BEHIND - 1)
WRONG_TIME = (9, 10)  # OpenSSL's codes for a certificate that is not valid yet, or not any more
OTHER_NAMES = (62, 64)  # for another host name and another IP address
RETRY_SECONDS = 3.0
BUSY = (502, 503, 504)
MEANINGS: dict[type[OSError], str] = {
    ssl.SSLEOFError: "it closed the connection; it may be starting, or be another program",
    ssl.SSLError: "it does not use TLS; it is another program, or a SuperLink without TLS",
    TimeoutError: "no answer; a firewall may block this port",
}
PASSING = (errno.EHOSTUNREACH, errno.ENETUNREACH)
PROXY_ANSWER = re.compile(r"Tunnel connection failed: (\d{3})")  # of Python's urllib


class CheckFailedError(Exception):
    """The site cannot join; the text says why and what to do."""


class UnreachableError(CheckFailedError):
    """The coordinator does not answer, which may change by itself."""


def require_coordinator(address: str, authority: Path) -> Health:
    """Return what a coordinator answers that has a certificate by the authority.

    Raises:
        UnreachableError: it does not answer; it may be down, or not started yet.
        CheckFailedError: it is not the coordinator, or there is no such host.
    """
    try:
        return health(address, authority)
    except urllib.error.HTTPError as error:
        if error.code in BUSY:
            raise UnreachableError(f"{address}: its SuperLink does not answer yet") from None
        answer = f"it answers with HTTP {error.code} ({error.reason})"
        raise CheckFailedError(f"{address}: {connection_advice(answer)}") from None
    except urllib.error.URLError as error:
        reason = error.reason
    except OSError as error:
        reason = error
    kind = UnreachableError if passes(reason) else CheckFailedError
    raise kind(f"{address}: {connection_advice(reason)}")


def wait_for_coordinator(address: str, authority: Path) -> Health:
    """Do as `require_coordinator`, but wait while the coordinator does not answer; say so once.

    Raises:
        CheckFailedError: it is not the coordinator, or there is no such host.
    """
    waiting = Waiting()
    while True:
        try:
            return require_coordinator(address, authority)
        except UnreachableError as reason:
            waiting.pause(str(reason))


class Waiting:
    """A wait for something that may change by itself; says each new reason once."""

    def __init__(self) -> None:
        self._said = ""

    def pause(self, reason: str) -> None:
        """Print the reason if it is new, and wait before the next trial.

        A reason with another number, such as the time, is not new.
        """
        kind = re.sub(r"\d+", "", reason)
        if kind != self._said:
            print(f"waiting: {reason}; trying again ...", flush=True)
            self._said = kind
        time.sleep(RETRY_SECONDS)


def passes(reason: object) -> bool:
    """Whether the reason of a failed connection may pass by itself."""
    if isinstance(reason, socket.gaierror):
        return reason.errno == socket.EAI_AGAIN
    if isinstance(reason, (TimeoutError, ConnectionError, ssl.SSLEOFError)):
        return True
    return (
        isinstance(reason, OSError)
        and not isinstance(reason, ssl.SSLCertVerificationError)
        and (reason.errno in PASSING or proxy_answer(reason) in BUSY)
    )


def proxy_answer(reason: object) -> int | None:
    """Return the HTTP status with which a proxy refuses a connection; None for another reason."""
    found = PROXY_ANSWER.match(str(reason))
    return int(found[1]) if found else None


def connection_advice(reason: object) -> str:
    """Return what a failed connection means and what to do."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return certificate_advice(reason)
    if isinstance(reason, socket.gaierror):
        return f"there is no host of that name ({reason.strerror}); check the address"
    if (status := proxy_answer(reason)) is not None:
        return proxy_advice(status)
    for kind, meaning in MEANINGS.items():
        if isinstance(reason, kind):
            return meaning
    text = system_reason(reason) if isinstance(reason, OSError) else str(reason)
    return f"{text}; check that 'univarfl deploy coordinator' runs there with that port"


def proxy_advice(status: int) -> str:
    """Return what a proxy's refusal to connect means and what to do."""
    if status in BUSY:
        return f"the proxy does not reach it (HTTP {status}); it may be starting"
    return (
        f"the proxy refuses the connection (HTTP {status}); check HTTPS_PROXY, or add the host "
        "to NO_PROXY if it can be reached directly"
    )


def certificate_advice(reason: ssl.SSLCertVerificationError) -> str:
    """Return what a refused certificate means and what to do."""
    if reason.verify_code in OTHER_NAMES:
        return (
            "its certificate is for other names; the coordinator can add this one with "
            "'univarfl deploy keys DIR --host ...', and must then be started again"
        )
    if reason.verify_code in WRONG_TIME:
        return (
            f"{reason.verify_message}, and this machine's clock says "
            f"{shown(datetime.now(tz=UTC))}; if that is wrong, install time synchronisation "
            "(chrony or systemd-timesyncd), else the coordinator must delete ca.key and "
            "ca.crt, run 'univarfl deploy keys DIR --host HOST' and start again, and all sites "
            "need the new ca.crt"
        )
    return (
        f"ca.crt does not confirm its certificate ({reason.verify_message}); ask the "
        "coordinator for their ca.crt again"
    )


def clock_result(answer: Health) -> str:
    """Compare this machine's clock with the coordinator's; return a line about it.

    Raises:
        CheckFailedError: Flower would refuse the site's signatures.
    """
    if answer.time is None:
        return "not compared, because the coordinator sent no time"
    ahead = answer.received - answer.time
    if -MOST_BEHIND < ahead < MOST_AHEAD:
        return f"{abs(ahead.total_seconds()):.0f} s from the coordinator's"
    direction = "ahead of" if ahead > timedelta(0) else "behind"
    raise CheckFailedError(
        f"this machine has {shown(answer.received)} and the coordinator {shown(answer.time)}: "
        f"{timedelta(seconds=round(abs(ahead).total_seconds()))} {direction} it; Flower allows "
        f"{MOST_AHEAD.seconds} s ahead and {MOST_BEHIND.seconds} s behind; install time "
        "synchronisation (chrony or systemd-timesyncd) where the time is wrong"
    )


def shown(time: datetime) -> str:
    """Return a time for a person, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
