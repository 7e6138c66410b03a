"""Whether the coordinator lets a site in, asked with the site's own key.

Flower shuts a node out for up to a minute if it did not say goodbye, because it still counts it as
connected. The site therefore says goodbye for its last SuperNode before it starts the next one.
"""

import httpx

from task.errors import RunError
from task.site import Site
from univarfl.deploy.gate.authentication import CLOCK_DIFFERS, KEY_REVOKED, NOT_REGISTERED
from univarfl.deploy.gate.callers.machines import ALIVE_SECONDS, KEY_IN_USE
from univarfl.deploy.joining.fleet import Refusal, fleet_client, refusal_of
from univarfl.deploy.joining.machine import machine_name
from univarfl.deploy.joining.reach import (
    BUSY,
    CheckFailedError,
    UnreachableError,
    Waiting,
    clock_result,
    require_coordinator,
)
from univarfl.deploy.membership.successor import adopt_next_key
from univarfl.deploy.places import SitePlace

NOT_ACTIVATED, NOT_DEACTIVATED = NOT_REGISTERED, 2005  # Flower's codes
UNAUTHENTICATED = 401


class KeyRevokedError(CheckFailedError):
    """The coordinator has revoked the site's key, or accepted the next one in its place."""


class NotYetError(Exception):
    """The site is not let in now; the text says why, and that may change by itself."""


def wait_until_admitted(place: SitePlace, site: Site, address: str, again: bool = False) -> None:
    """Ask the coordinator until a SuperNode of this site can join; say once why it cannot yet.

    Args:
        place: the site's directory.
        site: its settings.
        address: the coordinator's HOST:PORT.
        again: whether the site was let in before. Its settings were right then, so every reason
            but a revoked key may pass: a certificate that is renewed, a proxy, or a name server.

    Raises:
        RunError: the site is not let in, for a reason that a person has to remove first.
    """
    waiting = Waiting()
    while True:
        try:
            return request_admission(place, site, address)
        except (NotYetError, UnreachableError) as reason:
            waiting.pause(str(reason))
        except KeyRevokedError as error:
            if not adopt_next_key(place, site.name):
                raise RunError(f"site {site.name} is not let in: {error}") from None
            print(f"site {site.name} uses its next key from now on", flush=True)
        except CheckFailedError as error:
            if not again:
                raise RunError(f"site {site.name} is not let in: {error}") from None
            waiting.pause(str(error))


def request_admission(place: SitePlace, site: Site, address: str) -> None:
    """Make the coordinator count this site as absent, so that its SuperNode can join at once.

    Raises:
        NotYetError, UnreachableError: it cannot join now.
        CheckFailedError: it cannot join before a person does something about it.
    """
    clock_result(require_coordinator(address, place.authority))
    try:
        machine = machine_name(place.directory)
        with fleet_client(address, place.authority, place.key(site.name), machine) as node:
            known = place.node_id()
            if known is not None:
                refused = refusal_of(lambda: node.deactivate(known))
                if refused is None or refused.code == NOT_DEACTIVATED:
                    return
                if refused.status != UNAUTHENTICATED or refused.code:
                    raise explained(refused, site, place)
                place.joined.unlink()  # the SuperLink has a new database and other ids
            joined = node.activate()
            place.remember_node(joined)
            node.deactivate(joined)
    except httpx.HTTPStatusError as error:
        raise explained(Refusal.of(error), site, place) from None
    except httpx.RequestError as error:
        raise NotYetError(f"{address}: the connection ended ({error})") from None


def explained(refused: Refusal, site: Site, place: SitePlace) -> Exception:
    """Return the error that says why a site is refused and what to do."""
    if refused.code == NOT_ACTIVATED:
        return NotYetError(
            f"the coordinator does not know the key of site {site.name} (send them "
            f"{place.public_key(site.name)} for their sites/), or still counts the site as "
            "connected (this ends by itself)"
        )
    if refused.code == CLOCK_DIFFERS:
        return CheckFailedError(f"clock: {refused.reason}")
    if refused.code == KEY_REVOKED:
        old, new = place.key(site.name), place.public_key(site.name)
        cure = f"delete {old}, run 'univarfl deploy keys', and send them {new}"
        return KeyRevokedError(f"{refused.reason}; ask them why, or {cure}")
    if refused.code == KEY_IN_USE:
        return NotYetError(
            f"{refused.reason}; stop the site there, or make a key of its own for this one "
            f"('univarfl deploy keys'); a machine that ended is forgotten after {ALIVE_SECONDS:g} s"
        )
    if refused.status in BUSY:
        return NotYetError(f"the coordinator is busy: {refused.reason}")
    if refused.status == UNAUTHENTICATED:
        reason = (
            f"the coordinator does not accept the signature of {place.key(site.name)}: "
            f"{refused.reason}"
        )
    else:
        reason = (
            f"the coordinator answers with HTTP {refused.status}: {refused.reason}; does it run "
            "the same version?"
        )
    return CheckFailedError(reason)
