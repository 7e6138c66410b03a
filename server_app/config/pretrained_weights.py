"""Weights that a library publishes (``model.weights=pretrained``), downloaded once to the cache."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from filelock import FileLock
from rich.console import Console
from rich.progress import Progress
from safetensors import SafetensorError, safe_open

from server_app.config.converted_weights import converted
from server_app.config.file_hash import hash_of, is_pickled
from task.errors import ConfigError, system_reason
from task.given_weights import EXPECTED, HASH, KEY, PRETRAINED, cached, weights_directory
from task.machine.files import MEGABYTE, make_private, require_space, write_whole
from task.models.base import ModelSettings, Published
from task.plain_text import one_line
from task.registry import create

MOST_MEGABYTES = 10_000  # of a file
SECONDS = 30.0  # that a server may be silent
CURE = "name a file instead: model.weights=FILE"


class Remote(NamedTuple):
    """A file on a server.

    Attributes:
        url: its address; on the hub, that of one revision.
        headers: of the request, such as the user's token.
        sha256: its hash, or the first digits of it; empty if the server does not tell it.
    """

    url: str
    headers: Mapping[str, str]
    sha256: str

    @property
    def source(self) -> str:
        """The address without a user and password, for the record."""
        return str(httpx.URL(self.url).copy_with(username=None, password=None))


def pretrained(model: Mapping[str, Any], sha256: str) -> tuple[Path, dict[str, Any]]:
    """Return the published weights of a network as a safetensors file, and where they came from.

    A file that is in the cache is used without asking the server.

    Args:
        model: the network's settings.
        sha256: the hash that the published file must have; empty for any.

    Returns:
        The file, and its ``name``, ``source`` and the ``sha256`` that it had when it was published,
        with the ``image_size`` and ``interpolation`` that it was made for.

    Raises:
        ConfigError: nothing is published, or the file cannot be downloaded or has another hash.
    """
    if sha256 and not HASH.fullmatch(sha256):
        allowed = f"must be {PRETRAINED}, or {PRETRAINED}:SHA256 with 64 hex digits"
        raise ConfigError(KEY, f"{PRETRAINED}:{sha256}", allowed)
    network: ModelSettings = create("model", model)
    published = network.published()
    found, directory = kept(published.name, sha256), weights_directory()
    try:
        if not found:
            make_private(directory)
            with FileLock(directory / "download.lock"):
                found = kept(published.name, sha256) or downloaded(published, sha256)
    except OSError as error:
        allowed = f"cannot be kept in {directory}: {system_reason(error)}"
        raise ConfigError(KEY, PRETRAINED, allowed) from None
    own = network.own_input()
    return found[0], {**found[1], **(own._asdict() if own else {})}


def kept(name: str, sha256: str) -> tuple[Path, dict[str, str]] | None:
    """Return what the cache has under a name, and with a hash if one is given; the newest first."""
    described = weights_directory().glob(f"{sha256 or '*'}.json")
    for path in sorted(described, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            origin = json.loads(path.read_bytes())
            stored, place = origin.pop("stored"), cached(origin["sha256"])
            if origin["name"] == name and hash_of(KEY, place, EXPECTED) == stored:
                return place, origin
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged: it is downloaded again
    return None


def downloaded(published: Published, sha256: str) -> tuple[Path, dict[str, str]]:
    """Download a file, and keep it in the cache; see `pretrained`.

    Raises:
        ConfigError: it cannot be downloaded, is no file of weights, or has another hash.
        OSError: the cache cannot be written.
    """
    with explained(published.name):
        remote = on_hub(published) if published.repository else at_address(published.files[0])
        directory = weights_directory()
        with tempfile.TemporaryDirectory(prefix="download-", dir=directory) as scratch:
            path = Path(scratch, "file")
            found = fetched(published.name, remote, path)
            if sha256 not in ("", found):
                allowed = (
                    f"{remote.source} has changed: its SHA-256 is {found}, and the run needs "
                    f"{sha256}; start a new run with {KEY}={PRETRAINED}, or with a copy of the "
                    f"first file, {KEY}=FILE"
                )
                raise ConfigError(KEY, PRETRAINED, allowed)
            if not found.startswith(remote.sha256):
                raise UnusableFileError(f"its SHA-256 is {found}, not {remote.sha256}; try again")
            place = cached(found)
            place.unlink(missing_ok=True)  # a damaged file
            if is_pickled(path):
                converted(path, found)
            else:
                with safe_open(path, "pt"):
                    path.replace(place)
    origin = {"name": published.name, "source": remote.source, "sha256": found}
    stored = hash_of(KEY, place, EXPECTED)
    write_whole(place.with_suffix(".json"), json.dumps({**origin, "stored": stored}).encode())
    return place, origin


class UnusableFileError(ValueError):
    """A file that a server sent, or did not send; the text says why it cannot be used."""


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn the errors of a download into one that says what to do.

    Raises:
        ConfigError: there was one.
    """
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, SafetensorError, UnusableFileError) as error:
        reason = one_line(str(error)) or type(error).__name__
        allowed = f"{name} cannot be downloaded: {reason.rstrip('.')}; {CURE}"
        raise ConfigError(KEY, PRETRAINED, allowed) from None


def on_hub(published: Published) -> Remote:
    """Return the first of the files that a repository of the hub has, in its present revision.

    The hub is that of ``HF_ENDPOINT``; ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` work.

    Raises:
        UnusableFileError: the hub cannot be reached, or has no such file.
    """
    from huggingface_hub import (  # noqa: PLC0415  (timm brings it)
        get_hf_file_metadata,
        get_token,
        hf_hub_url,
    )
    from huggingface_hub.errors import EntryNotFoundError  # noqa: PLC0415

    hub = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
    for file in published.files:
        try:
            facts = get_hf_file_metadata(hf_hub_url(published.repository, file, endpoint=hub))
        except EntryNotFoundError:
            continue
        except Exception as error:  # its HTTP library is not ours, and has errors of its own
            raise UnusableFileError(str(error) or type(error).__name__) from None
        revision = facts.commit_hash
        url = hf_hub_url(published.repository, file, revision=revision, endpoint=hub)
        known = facts.etag if facts.etag and HASH.fullmatch(facts.etag) else ""
        token = get_token()
        return Remote(url, {"Authorization": f"Bearer {token}"} if token else {}, known)
    raise UnusableFileError(f"{published.repository} has none of {', '.join(published.files)}")


def at_address(url: str) -> Remote:
    """Return the file at an address; PyTorch's names end in the first digits of the hash."""
    digits = Path(httpx.URL(url).path).stem.rpartition("-")[2]
    is_hash = len(digits) >= 8 and set(digits) <= set("0123456789abcdef")
    return Remote(url, {}, digits if is_hash else "")


def fetched(name: str, remote: Remote, to: Path) -> str:
    """Download a file of at most `MOST_MEGABYTES`, and return its SHA-256.

    Raises:
        httpx.HTTPError: the server cannot be reached, refuses, or ends too early.
        UnusableFileError: the file is too large.
        OSError: it cannot be written.
    """
    console, hashed, count = Console(stderr=True), hashlib.sha256(), 0
    headers = {**remote.headers, "Accept-Encoding": "identity"}
    with (
        httpx.stream(
            "GET", remote.url, headers=headers, follow_redirects=True, timeout=SECONDS
        ) as response,
        to.open("wb") as file,
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        response.raise_for_status()
        told = response.headers.get("Content-Length", "")
        size = int(told) if told.isdecimal() else 0
        require_space(to.parent, min(size, MOST_MEGABYTES * MEGABYTE))
        text = f"downloading {name}, {size / MEGABYTE:,.1f} MB, once"
        console.print(text, markup=False, highlight=False)
        bar = progress.add_task("downloading weights", total=size or None)
        for part in response.iter_bytes():
            count += len(part)
            if max(size, count) > MOST_MEGABYTES * MEGABYTE:
                raise UnusableFileError(f"it has more than {MOST_MEGABYTES:,} MB")
            hashed.update(part)
            file.write(part)
            progress.update(bar, completed=count)
    return hashed.hexdigest()
