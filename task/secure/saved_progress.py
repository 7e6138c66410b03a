"""The progress of a worker's participants between two messages, as bytes.

A worker may answer each message in another process, so the bytes go from one to the next in memory.
They are secret: they are never written to a disk, a log or a message.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from task.protocol.masking.rows import Advert
from task.secure.mask_secrets import MaskSecrets
from task.secure.participant import Progress, Stage
from task.secure.primitives.key_agreement import KeyPair
from task.secure.transcript import Scope, Setup, View


def pack_progress(scope: Scope, members: Mapping[int, Progress]) -> bytes:
    """Return the progress of participants who were shown the same.

    Args:
        scope: the attempt.
        members: the progress by participant.
    """
    setups = [each.setup for each in members.values() if each.setup]
    views = [each.view for each in members.values() if each.view]
    return json.dumps(
        {
            "scope": asdict(scope),
            "setup": _setup_fields(setups[0]) if setups else None,
            "view": _view_fields(views[0]) if views else None,
            "members": {client: _fields(each) for client, each in members.items()},
        }
    ).encode()


def unpack_progress(content: bytes) -> tuple[Scope, dict[int, Progress]]:
    """Return what `pack_progress` packed."""
    found = json.loads(content)
    scope = Scope(**found["scope"])
    setup = _setup(scope, found["setup"]) if found["setup"] else None
    view = None
    if found["view"] and setup:
        view = View(setup, found["view"]["members"], found["view"]["max_norm"])
    return scope, {
        int(client): _progress(fields, setup, view) for client, fields in found["members"].items()
    }


def _fields(progress: Progress) -> dict[str, Any]:
    secret = progress.secrets
    received = progress.received
    return {
        "stage": int(progress.stage),
        "advert": progress.advert.model_dump() if progress.advert else None,
        "secrets": secret
        and [
            secret.sealing.private_bytes().hex(),
            secret.masking.private_bytes().hex(),
            secret.seed.hex(),
        ],
        "shown": [progress.setup is not None, progress.view is not None],
        "received": received and {c: [part.hex() for part in p] for c, p in received.items()},
        "survivors": progress.survivors,
    }


def _progress(fields: dict[str, Any], setup: Setup | None, view: View | None) -> Progress:
    secret, received, shown = fields["secrets"], fields["received"], fields["shown"]
    return Progress(
        stage=Stage(fields["stage"]),
        advert=Advert(**fields["advert"]) if fields["advert"] else None,
        secrets=_secrets(*map(bytes.fromhex, secret)) if secret else None,
        setup=setup if shown[0] else None,
        view=view if shown[1] else None,
        received=received
        and {int(c): (bytes.fromhex(a), bytes.fromhex(b)) for c, (a, b) in received.items()},
        survivors=tuple(fields["survivors"]),
    )


def _secrets(sealing: bytes, masking: bytes, seed: bytes) -> MaskSecrets:
    return MaskSecrets(KeyPair(sealing), KeyPair(masking), seed)


def _setup_fields(setup: Setup) -> dict[str, Any]:
    return {
        "threshold": setup.threshold,
        "uniform": setup.uniform,
        "adverts": [advert.model_dump() for advert in setup.adverts.values()],
        "absent": list(setup.absent),
    }


def _setup(scope: Scope, fields: dict[str, Any]) -> Setup:
    adverts = [Advert(**each) for each in fields["adverts"]]
    return Setup(
        scope,
        fields["threshold"],
        fields["uniform"],
        {each.client: each for each in adverts},
        fields["absent"],
    )


def _view_fields(view: View) -> dict[str, Any]:
    return {"members": list(view.members), "max_norm": view.max_norm}
