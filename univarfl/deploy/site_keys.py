"""A site's key pair, and the settings that it begins with."""

import json
import tomllib
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, PublicFormat

from task.errors import ConfigError
from task.machine.files import from_home, make_private, write_whole
from task.machine.regular import read_start
from task.site import SITE_NAME, SITE_NAME_FORM
from univarfl.deploy.health.rights import WRITE
from univarfl.deploy.keys import new_key, write_key
from univarfl.deploy.places import SitePlace, refuse_unusable

SETTINGS = """\
# This site's name and limits. Nothing that a coordinator sends can change them.
site = {name}
data-dir = {data}
memory-dir = {memory}
models-dir = {models}

# device = "cuda"      # cpu, cuda, or auto: a GPU where there is one
# max-norm = 10.0      # clip the update that is sent to this Euclidean norm
# max-epochs = 10      # refuse experiments with more local epochs a round
# max-seconds = 3600   # end the work on a message that takes longer
# max-batch-size = 256 # refuse experiments with larger batches
# max-model-megabytes = 500  # refuse experiments with a larger model
# keep-free-megabytes = 5000  # write no images, client state or models if less would stay free
# tell-labels = true   # send the number of images of each class
# tell-statistics = true  # send means and covariances of features, which can resemble images
# max-epsilon = 8.0    # train only with the site's own noise, up to this epsilon over all runs
# delta = 1e-6         # the delta of max-epsilon; far below 1 / (number of images)
# require-approval = true  # train only what you have approved: univarfl deploy approve
# require-secure = true  # take part in masked rounds only
# equal-weights = false  # also if sites weigh by their images, for a coordinator that you trust
# allow-nearest = true   # also with secure.rounding=nearest, for a coordinator that you trust
# roster = "/DIRECTORY"  # with NAME.pub of every site; masked rounds need it
# colluding = 1        # how many of these sites may work together with the coordinator
# max-share = 0.75     # the largest weight of one site in a masked sum
# extensions = ["NAME"]  # installed packages whose methods and data sources may run here
"""


def make_site(place: SitePlace, name: str, data: Path) -> None:
    """Make a site's key pair, and its settings unless they exist.

    Raises:
        ConfigError: the key exists already, the name or the data directory cannot be used or is
            not that of the settings, or a file cannot be written.
    """
    if not SITE_NAME.fullmatch(name):
        raise ConfigError("--site", name, f"must be {SITE_NAME_FORM}")
    with refuse_unusable(data):
        if not from_home(data).is_dir():
            raise ConfigError("--data", data, "must be a directory with the site's images")
    own = {kind: str(place.directory / kind) for kind in ("memory", "models")}
    values = {"name": name, "data": str(from_home(data).absolute()), **own}
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    try:
        settings = SETTINGS.format(**quoted).encode()
    except UnicodeEncodeError:
        raise ConfigError("--data", data, "must have a name in UTF-8") from None
    if place.settings.exists():
        check_same_site(place, name, values["data"])
    key = new_key()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    with refuse_unusable(place.directory):
        refuse_to_overwrite(place.key(name))
        make_private(place.directory)
        rights = place.directory.stat().st_mode  # it may have been there
        if rights & WRITE:
            place.directory.chmod(rights & ~WRITE)
        if not place.settings.exists():  # a site that makes another key keeps its settings
            write_whole(place.settings, settings)
            place.settings.chmod(0o644)  # whatever rights this user's new files have
        write_whole(place.public_key(name), public + f" {name}\n".encode())
        write_key(place.key(name), key, PrivateFormat.OpenSSH)


def check_same_site(place: SitePlace, name: str, data: str) -> None:
    """Refuse to make a key for another site, or other images, than the settings name.

    Raises:
        ConfigError: they do, or cannot be read.
    """
    with refuse_unusable(place.settings):
        text = read_start(place.settings).decode(errors="replace")
    try:
        known = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError("keys", place.settings, f"is not valid TOML: {error}") from None
    own_name, own_data = str(known.get("site")), str(known.get("data-dir"))
    if own_name != name:
        allowed = f"{place.settings} names the site {own_name}; use this name or another directory"
        raise ConfigError("--site", name, allowed)
    if str(from_home(own_data).absolute()) != data:
        raise ConfigError("--data", data, f"{place.settings} has {own_data}; change it there first")


def refuse_to_overwrite(*paths: Path) -> None:
    """Refuse to replace files that exist.

    Raises:
        ConfigError: one of them exists.
    """
    allowed = "exists already; to change the key: univarfl deploy keys DIR --site NAME --rotate"
    for path in paths:
        if path.exists():
            raise ConfigError("keys", path, allowed)
