"""The coordinator's folder ``sites/``, and what Flower is told of its keys."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from task.errors import system_reason
from task.machine.files import make_private, write_whole
from task.protocol.public_keys import PublicKeyError
from task.site import SITE_NAME, SITE_NAME_FORM
from univarfl.deploy.membership.public_keys import key_hash, pem, read_public_key, short_name
from univarfl.deploy.membership.rotation import RotationError, read_rotation
from univarfl.deploy.places import CoordinatorPlace
from univarfl.flower.database import RegisteredNode, registered_nodes
from univarfl.flower.programs import CONNECTION, run_to_end

ASK = "ask the site for a new one"


class Registry:
    """Registers the keys in ``sites/``, accepts rotations, and unregisters former keys.

    A key belongs to the name of its file. Flower's database shows which keys have a name already.

    Args:
        place: the coordinator's directory.
    """

    def __init__(self, place: CoordinatorPlace) -> None:
        self._place = place
        self._said: dict[Path, str] = {}

    def update(self) -> list[str]:
        """Do what changed files ask for; return one line for each thing that is new.

        A file that cannot be used, such as a locked database or a full disk, gets a line. All is
        tried again at the next look.
        """
        place, lines = self._place, dict[Path, str]()
        try:
            nodes = registered_nodes(place.database)
        except OSError as error:
            return self._new(self._said | unusable(place, error))
        steps: list[Callable[[], dict[Path, str]]] = [
            partial(accepted, place, nodes, path) for path in sorted(place.sites.glob("*.rotation"))
        ]
        steps.append(lambda: self._register(nodes))
        steps.append(lambda: unregister(place, nodes, former_keys(place)))
        for step in steps:
            try:
                lines |= step()
            except OSError as error:
                lines = self._said | lines | unusable(place, error)
        return self._new(lines)

    def _new(self, lines: dict[Path, str]) -> list[str]:
        """Return the lines that were not there at the last look."""
        new = [line for path, line in lines.items() if self._said.get(path) != line]
        self._said = lines
        return new

    def _register(self, nodes: Sequence[RegisteredNode]) -> dict[Path, str]:
        """Register the keys that are new; return a line about each file."""
        keys, lines = usable_keys(self._place)
        counts = Counter(keys.values())
        former = former_keys(self._place)
        leaving = {pem(key) for key in former}
        known = {node.key: node for node in nodes}
        names = {node.name for node in nodes if node.active and node.key not in leaving}
        for path, key in keys.items():
            site, node = path.stem, known.get(pem(key))
            if key in former or (node and not node.active):
                lines[path] = f"{path.name} is a key that was revoked; {ASK}"
            elif node and node.name == site:
                lines[path] = f"site {site} may join"
            elif node:
                lines[path] = (
                    f"{path.name} is the key of site {node.name!r}; each site needs its own key. "
                    f"If the file was renamed, rename it back to {node.name}.pub; or run "
                    f"'univarfl deploy revoke {self._place.directory} {node.name}', and ask the "
                    "site for a new key"
                )
            elif counts[key] > 1:
                same = [other.name for other, its in keys.items() if its == key and other != path]
                lines[path] = (
                    f"{path.name} is the same key as {same[0]}; each site needs its own key"
                )
            elif site in names:
                lines[path] = (
                    f"{path.name} is a second key for site {site}: ask the site for a rotation of "
                    f"its key; or move the file away, run 'univarfl deploy revoke "
                    f"{self._place.directory} {site}', and put it back"
                )
            else:
                lines[path] = register(self._place, path)
        return lines


def unusable(place: CoordinatorPlace, error: OSError) -> dict[Path, str]:
    """Return a line about a file that cannot be used, by the file."""
    path = Path(error.filename or place.directory)
    return {path: f"{path} cannot be used: {system_reason(error)}; key changes wait until it can"}


def accepted(
    place: CoordinatorPlace, nodes: Iterable[RegisteredNode], path: Path
) -> dict[Path, str]:
    """Replace a site's key by its successor; return a line about it, by the file.

    Raises:
        OSError: a file cannot be written.
    """
    return {path: accept_rotation(place, nodes, path)}


def usable_keys(place: CoordinatorPlace) -> tuple[dict[Path, str], dict[Path, str]]:
    """Return the key in each NAME.pub of ``sites/``, and a line about each unusable file."""
    keys, lines = {}, {}
    for path in sorted(place.sites.glob("*.pub")):
        if not SITE_NAME.fullmatch(path.stem):
            lines[path] = f"{path.name!r}: a site's name must be {SITE_NAME_FORM}"
            continue
        try:
            keys[path] = read_public_key(path)
        except PublicKeyError as reason:
            lines[path] = f"{path.name} {reason}; {ASK}"
    return keys, lines


def former_keys(place: CoordinatorPlace) -> dict[str, Path]:
    """Return the keys that must not return, with the file of each."""
    found = {}
    for path in sorted(place.revoked.glob("*.pub")):
        try:
            found[read_public_key(path)] = path
        except PublicKeyError:
            continue
    return found


def keep_former_key(place: CoordinatorPlace, site: str, key: str) -> Path:
    """Keep a site's former key, so that it is never registered again; return its file."""
    make_private(place.revoked)
    path = place.revoked / f"{short_name(site, key)}.pub"
    write_whole(path, f"{key} {site}\n".encode())
    return path


def accept_rotation(place: CoordinatorPlace, nodes: Iterable[RegisteredNode], path: Path) -> str:
    """Replace a site's key by the successor that the key has signed; return a line about it."""
    site = path.stem
    try:
        if not SITE_NAME.fullmatch(site):
            raise RotationError(f"a site's name must be {SITE_NAME_FORM}")
        rotation = read_rotation(path)
        if rotation.site != site:
            raise RotationError(f"it is for site {rotation.site}")
        keys, _ = usable_keys(place)
        registered = keys.get(place.sites / f"{site}.pub")
        repeated = registered == rotation.new and rotation.old in former_keys(place)
        if registered != rotation.old and not repeated:
            raise RotationError(f"its old key is not the key of site {site}")
        holders = {other.stem for other, key in keys.items() if key == rotation.new}
        holders |= {node.name for node in nodes if node.key == pem(rotation.new)}
        if holders - {site} or rotation.new in former_keys(place):
            raise RotationError("its new key has been used before")
    except RotationError as reason:
        return f"{path.name} is refused: {reason}"
    former = keep_former_key(place, site, rotation.old)
    write_whole(place.sites / f"{site}.pub", f"{rotation.new} {site}\n".encode())
    path.replace(former.with_suffix(".rotation"))
    return f"site {site} has a new key, {key_hash(rotation.new)}, signed by its old one"


def register(place: CoordinatorPlace, public_key: Path) -> str:
    """Register a site's public key with the SuperLink; return a line with the result."""
    name = public_key.stem
    words = ["flwr", "supernode", "register", str(public_key), CONNECTION, "--name", name]
    code, output = run_to_end(words, place.flower)
    if code == 0:
        return f"site {name} may join"
    return f"site {name} may not join: {' '.join(output.split())}"


def unregister(
    place: CoordinatorPlace, nodes: Iterable[RegisteredNode], former: Mapping[str, Path]
) -> dict[Path, str]:
    """Unregister the former keys with the SuperLink; return a line about each, by its file.

    Raises:
        OSError: the SuperLink's database cannot be read.
    """
    files = {pem(key): path for key, path in former.items()}
    lines = {}
    for node in nodes:
        if node.active and node.key in files:
            words = ["flwr", "supernode", "unregister", str(node.node_id), CONNECTION]
            run_to_end(words, place.flower)
            now = {one.node_id: one for one in registered_nodes(place.database)}
            done = not now[node.node_id].active
            result = "is unregistered" if done else "is shut out, and not yet unregistered"
            lines[files[node.key]] = f"a former key of site {node.name} {result}"
    return lines
