"""Every key that an override can set, and the other words that people use for some of them."""

import difflib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from server_app.config.choices import CONF, choices, files_in
from server_app.config.override_text import flat

CLOSE = 0.65  # the least similarity of a suggestion, from 0 to 1
NAME = "name"  # the key that holds the choice of a group, which people set as GROUP=NAME

# What to type for words of papers and of other programs: a key, several keys of which the chosen
# components have one, or whole overrides. A word that ends a key, as `lr` ends `optim.lr`, is
# found without an entry here. The symbols of methods, such as mu, are in `symbols`.
ALIASES: dict[str, tuple[str, ...]] = {
    "lr": ("optim.lr",),
    "momentum": ("optim.momentum",),
    "max_gradient_norm": ("optim.max_gradient_norm",),
    "learning_rate": ("optim.lr",),
    "client_lr": ("optim.lr",),
    "eta": ("optim.lr",),
    "lr_schedule": ("optim.schedule",),
    "lr_scheduler": ("optim.schedule",),
    "scheduler": ("optim.schedule",),
    "cosine": ("optim.schedule=cosine",),
    "drop_last": ("last_batch=drop",),
    "wd": ("optim.weight_decay",),
    "l2": ("optim.weight_decay",),
    "clip": ("optim.max_gradient_norm",),
    "grad_clip": ("optim.max_gradient_norm",),
    "optimizer": ("optim",),
    "optimiser": ("optim",),
    "epochs": ("local_epochs",),
    "epoch": ("local_epochs",),
    "E": ("local_epochs",),
    "num_epochs": ("local_epochs",),
    "local_ep": ("local_epochs",),
    "num_rounds": ("rounds",),
    "T": ("rounds",),
    "communication_rounds": ("rounds",),
    "clients": ("num_clients",),
    "K": ("num_clients",),
    "n_clients": ("num_clients",),
    "num_users": ("num_clients",),
    "fraction": ("rho",),
    "fraction_fit": ("rho",),
    "frac": ("rho",),
    "participation_rate": ("rho",),
    "sample_rate": ("rho",),
    "rate": ("rho", "optim.lr"),
    "clients_per_round": ("rho",),
    "batch": ("batch_size",),
    "bs": ("batch_size",),
    "B": ("batch_size",),
    "local_bs": ("batch_size",),
    "gpu": ("device=cuda",),
    "gpus": ("device=cuda",),
    "cuda": ("device=cuda",),
    "cpu": ("device=cpu",),
    "ray": ("engine=flower",),
    "backend": ("engine",),
    "simulation": ("engine=flower",),
    "num_workers": ("federation.workers",),
    "processes": ("federation.workers",),
    "jobs": ("federation.workers",),
    "timeout": ("federation.round_timeout",),
    "retries": ("federation.attempts",),
    "size": ("data.image_size",),
    "resolution": ("data.image_size",),
    "img_size": ("data.image_size",),
    "dataset": ("data",),
    "data_set": ("data",),
    "data_dir": ("data.root",),
    "data_path": ("data.root",),
    "path": ("data.root",),
    "split": ("data.split", "partition"),
    "distribution": ("partition",),
    "non_iid": ("partition=dirichlet",),
    "iid": ("partition=iid",),
    "beta": ("alpha",),
    "dirichlet_alpha": ("alpha",),
    "concentration": ("alpha",),
    "algorithm": ("method",),
    "algo": ("method",),
    "alg": ("method",),
    "loss": ("method",),
    "aggregation": ("strategy",),
    "aggregator": ("strategy",),
    "server": ("strategy",),
    "net": ("model",),
    "network": ("model",),
    "arch": ("model",),
    "architecture": ("model",),
    "backbone": ("model",),
    "normalisation": ("data.normalisation", "model.norm"),
    "normalization": ("data.normalisation", "model.norm"),
    "transform": ("augmentation",),
    "augment": ("augmentation",),
    "dtype": ("runtime.precision",),
    "amp": ("runtime.precision=bfloat16",),
    "tf32": ("runtime.precision=tf32",),
    "bf16": ("runtime.precision=bfloat16",),
    "compile": ("runtime=compiled",),
    "output": ("output_dir",),
    "out": ("output_dir",),
    "save_dir": ("output_dir",),
    "log_dir": ("output_dir",),
    "runs": ("output_dir",),
    "run_name": ("run_id",),
    "exp_name": ("run_id",),
    "random_seed": ("seed",),
    "eval_every": ("evaluate_every",),
    "checkpoint": ("resume",),
    "resume_from": ("resume",),
    "byzantine": ("strategy.num_malicious",),
}

OFF = ("false", "no", "off", "none", "null", "0")  # values that switch something off
# What to type for a word above that is switched off, as in gpu=false.
OPPOSITES = {
    "optim.schedule=cosine": "optim.schedule=constant",
    "last_batch=drop": "last_batch=merge",
    "device=cuda": "device=cpu",
    "device=cpu": "device=auto",
    "engine=flower": "engine=inprocess",
    "partition=dirichlet": "partition=iid",
    "partition=iid": "partition=dirichlet",
    "runtime.precision=bfloat16": "runtime.precision=float32",
    "runtime.precision=tf32": "runtime.precision=float32",
    "runtime=compiled": "runtime=eager",
}


def plain(word: str) -> str:
    """Return a word in lower case, with letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


PLAIN_ALIASES = {plain(alias): keys for alias, keys in ALIASES.items()}


@cache
def general_settings() -> dict[str, Any]:
    """Return the settings of ``conf/config.yaml`` that belong to no group, with their defaults."""
    loaded = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"), resolve=False)
    assert isinstance(loaded, dict)
    return flat({str(key): value for key, value in loaded.items() if key != "defaults"})


@cache
def listed_choices() -> dict[str, str | None]:
    """Return each group with its choice, in the order of ``conf/config.yaml``.

    A later group's file takes precedence over an earlier one's.
    """
    entries = OmegaConf.load(CONF / "config.yaml").defaults
    listed = [dict(entry) for entry in entries if not isinstance(entry, str)]
    return {str(group): name for entry in listed for group, name in entry.items()}


@cache
def settings_in_conf(group: str, name: str) -> dict[str, Any]:
    """Return the settings in a file of ``conf/`` by dotted key; references stay as they are."""
    values = OmegaConf.to_container(OmegaConf.load(files_in(group)[name]), resolve=False)
    assert isinstance(values, dict)
    return flat({str(key): value for key, value in values.items()})


def settings_of_choice(group: str, name: str) -> dict[str, Any]:
    """Return the settings that a choice has for itself, by full key such as ``optim.lr``."""
    inside = f"{group}."
    found = settings_in_conf(group, name)
    if files_in(group)[name].read_text().startswith("# @package _global_"):
        own = {key: value for key, value in found.items() if key.startswith(inside)}
    else:
        own = {inside + key: value for key, value in found.items()}
    return {key: value for key, value in own.items() if key != inside + NAME}


@cache
def choices_with() -> dict[str, list[str]]:
    """Return each key of a group with the choices that have it, as ``GROUP=NAME``."""
    found: dict[str, list[str]] = defaultdict(list)
    for group, names in choices().items():
        for name in names:
            for key in settings_of_choice(group, name):
                found[key].append(f"{group}={name}")
    return dict(found)


@cache
def every_key() -> tuple[str, ...]:
    """Return every key: the general ones, the groups, and the settings of every choice."""
    return (*general_settings(), *choices(), *choices_with())


def keys_meant_by(word: str) -> list[str]:
    """Return what a person may mean by a word that is no key: keys, or overrides with a value."""
    last = word.rpartition(".")[2]
    return (
        [key for key in every_key() if plain(key) == plain(word)]
        or list(PLAIN_ALIASES.get(plain(word), ()))
        or list(PLAIN_ALIASES.get(plain(last), ()))
        or [key for key in every_key() if plain(leaf(key)) == plain(last)]
    )


def keys_like(word: str, keys: Iterable[str]) -> list[str]:
    """Return the keys that are spelled most like a word, as a whole or in their last part."""
    known = list(keys)
    if close := nearest(word, known):
        return [close]
    last = nearest(word, {leaf(key) for key in known})
    return [key for key in known if last and leaf(key) == last]


def nearest(word: str, options: Collection[str]) -> str | None:
    """Return the option that is spelled most like a word; None if all differ much.

    Upper and lower case, and signs such as ``-`` and ``_``, make no difference.
    """
    likeness = {
        option: difflib.SequenceMatcher(None, plain(option), plain(word)).ratio()
        for option in sorted(options)
    }
    best = max(likeness, key=likeness.__getitem__, default="")
    return best if likeness.get(best, 0) >= CLOSE else None


def leaf(key: str) -> str:
    """Return the last part of a dotted key."""
    return key.rpartition(".")[2]
