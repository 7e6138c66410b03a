"""What to type instead of an unknown key or value."""

import json
import re
from collections.abc import Collection, Mapping, Sequence

from server_app.config.choices import SWEEPS, choices, names_in
from server_app.config.override_text import as_typed, flat, quoted
from server_app.config.vocabulary.keys import (
    OFF,
    OPPOSITES,
    choices_with,
    every_key,
    general_settings,
    keys_like,
    keys_meant_by,
    leaf,
    nearest,
    plain,
)
from server_app.config.vocabulary.noise import noise_to_type
from server_app.config.vocabulary.symbols import GROUPS, SYMBOLS, chosen_with_symbol, owners_of
from task.errors import ConfigError
from task.extensions import PLUS
from task.registry import PYDANTIC_WORDS

MOST = 4  # how many choices an answer names
LISTED = "'univarfl list keys' shows every key"
NEUTRAL = ("none", "local")  # names in several groups, which say nothing about the group meant
LITERAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|true|false|null", re.IGNORECASE)
LITERALS = re.compile(r"must be ('[^']+'(?:, '[^']+')* or )?'[^']+'")
# Values that people type for others.
VALUES = {
    "gpu": "cuda", "gpus": "cuda", "ray": "flower", "bf16": "bfloat16", "fp32": "float32",
    "noniid": "dirichlet", "lda": "dirichlet", "shards": "pathological",
}  # fmt: skip


def unknown_key(key: str, value: str, config: Mapping[str, object]) -> ConfigError:
    """Return the error for an unknown key, with the key to type instead.

    Args:
        key: the key.
        value: its value.
        config: the composed configuration without it.
    """
    return ConfigError(key, value, f"unknown key; {key_to_type(key, value, config)}")


def key_to_type(key: str, value: str, config: Mapping[str, object]) -> str:
    """Return what to type instead of an unknown key: by its meaning, else by its spelling."""
    group, dot, last = key.partition(".")
    if key == SWEEPS:
        table = same(value, names_in(SWEEPS)) or nearest(value, names_in(SWEEPS)) or "NAME"
        return f'write univarfl sweep {key}={table}, or in Python univarfl.sweep({key}="{table}")'
    if key in choices_with():
        return f"{settings_in(group, config)}; {key} belongs to {listed(choices_with()[key])}"
    if noise := noise_to_type(key, value, config):
        return noise
    if dot and isinstance(config.get(group), Mapping):
        return setting_to_type(group, last, value, config)
    return word_to_type(key, value, config)


def word_to_type(key: str, value: str, config: Mapping[str, object]) -> str:
    """Return what to type instead of an unknown key outside the groups."""
    present = set(flat(config)) | set(config)
    symbolised, meant = chosen_with_symbol(key, config), keys_meant_by(key)
    if not symbolised and not present & set(meant) and (owners := owners_of(key)):
        return f"{key} belongs to {owners}"
    if meant := [*dict.fromkeys([*symbolised, *meant])]:
        return meaning_to_type(meant, value, present)
    if choice := [f"{name}={key}" for name, names in choices().items() if key in names]:
        return f"write {' or '.join(choice)}"
    options = [
        each for each in every_key() if each not in choices() or not LITERAL.fullmatch(value)
    ]
    close = keys_like(key, options)
    return f"did you mean {spelled(close, value, present)}?" if close else LISTED


def setting_to_type(group: str, last: str, value: str, config: Mapping[str, object]) -> str:
    """Return what to type instead of an unknown setting of a group: mostly another one of it."""
    known = config[group]
    assert isinstance(known, Mapping)
    symbolised = [key for key in chosen_with_symbol(last, config) if key.startswith(f"{group}.")]
    meant = keys_meant_by(f"{group}.{last}")
    if own := symbolised or [key for key in meant if re.split("[.=]", key)[0] == group]:
        return meaning_to_type(own, value, set(flat(config)))
    if alike := ending_alike([last, *map(leaf, meant)], known):
        return f"did you mean {group}.{alike}={value}?"
    is_symbol = group in GROUPS and last in SYMBOLS
    if not is_symbol and last in (*general_settings(), *choices()):
        return f"write {with_choice(last, value, ())}"
    if near := nearest(last, list(map(str, known))):
        return f"did you mean {group}.{near}={value}?"
    owners = owners_of(last) if group in GROUPS else ""
    return settings_in(group, config) + (f"; {last} belongs to {owners}" if owners else "")


def meaning_to_type(meant: Sequence[str], value: str, present: Collection[str]) -> str:
    """Return what to type for a word that means one of some keys."""
    if plain(value) in OFF and all(found in OPPOSITES for found in meant):
        return f"write {' or '.join(OPPOSITES[found] for found in meant)}"
    if meant == ["rho"] and value.isdecimal() and int(value) > 1:
        return "write rho=SHARE, the share of the clients in a round, as rho=0.3 for 3 of 10"
    return f"write {spelled(meant, value, present)}"


def ending_alike(words: Sequence[str], keys: Mapping[object, object]) -> str | None:
    """Return the first key that is one of some words, or ends with one as ``server_lr`` does."""
    found = (str(key) for key in keys for word in words if f"_{key}".endswith(f"_{word}"))
    return next(found, None)


def spelled(keys: Sequence[str], value: str, present: Collection[str]) -> str:
    """Return the overrides that set one of some keys, preferably one that is present."""
    for found in ([key for key in keys if key in present or "=" in key], list(keys)):
        if found:
            break
    return ", or ".join(dict.fromkeys(with_choice(key, value, present) for key in found[:MOST]))


def with_choice(key: str, value: str, present: Collection[str]) -> str:
    """Return the override that sets a key, with the choice that has it if it is not present."""
    group, sign, _ = key.partition("=")
    if group in choices():
        options = choices()[group]
        if name := same(value.strip("'\""), options):
            return f"{group}={name}"
        if not sign and LITERAL.fullmatch(value):
            return f"{group}=NAME, with one of {', '.join(options)}"
    if sign:
        return key
    word = f"{key}={value}"
    owners = choices_with().get(key, [])
    if key in present or not owners:
        return word
    return f"{owners[0]} {word}" if len(owners) == 1 else f"{word} with {listed(owners)}"


def listed(owners: Sequence[str]) -> str:
    """Return some choices of a group as ``GROUP=A|B|...``."""
    group = owners[0].partition("=")[0]
    names = [owner.partition("=")[2] for owner in owners]
    return f"{group}={'|'.join(names[:MOST])}{'|...' if len(names) > MOST else ''}"


def settings_in(group: str, config: Mapping[str, object]) -> str:
    """Return a sentence with the settings that a group has now."""
    known = config.get(group)
    if not isinstance(known, Mapping):
        return f"{group} has no settings"
    choice = known.get("name")
    keys = ", ".join(str(name) for name in known if name != "name")
    return f"{f'{group}={choice}' if choice else group} has {keys or 'no settings'}"


def unknown_choice(group: str, value: str) -> ConfigError:
    """Return the error for an unknown choice of a group, with the nearest choice."""
    options = choices()[group]
    joined = ", or join several by +" if group == "method" else ""
    otherwise = f"choose one of {', '.join(options)}{joined}"
    bare = value.strip(" '\"=[]")
    names = [part.strip() for part in re.split(r"[+,]", bare)] if joined else [bare]
    found = [same(name, options) for name in names]
    if all(found) and (len(names) > 1 or names[0]):
        several = "; a sweep makes a run for each of several" if "," in value else ""
        return ConfigError(group, value, f"write {group}={PLUS.join(map(str, found))}{several}")
    for other, theirs in choices().items():
        name = same(names[0], theirs) if len(names) == 1 else None
        if name and name not in NEUTRAL and other != group:
            article = "an" if group[0] in "aeiou" else "a"
            allowed = f"{name} is not {article} {group}; write {other}={name}"
            return ConfigError(group, value, allowed)
    close = [name if name in options else nearest(name, options) for name in names]
    if all(close):
        likely = f"{group}={PLUS.join(map(str, close))}"
        return ConfigError(group, value, f"did you mean {likely}? {otherwise}")
    return ConfigError(group, value, otherwise)


def same(word: str, options: Collection[str]) -> str | None:
    """Return the option that a word names in another way, such as "FedAvg" or "gpu"."""
    meant = (plain(word), VALUES.get(plain(word)))
    found = [option for option in options if plain(option) in meant]
    return found[0] if found else None


def improved(error: ConfigError, config: Mapping[str, object]) -> ConfigError:
    """Return an error of the checks of values, with what to type where that is known.

    Args:
        error: an error of `server_app.config.experiment` or of a component.
        config: the composed configuration.
    """
    value = str(error.value)
    if error.allowed == "unknown key":
        return unknown_key(error.key, value, without(config, error.key))
    if error.allowed == PYDANTIC_WORDS["string_type"]:
        cure = text_to_type(error.key, error.value, config)
        return ConfigError(error.key, error.value, f"must be text{cure}")
    inside = [key for key in general_settings() if key.startswith(f"{error.key}.")]
    if inside and error.allowed == PYDANTIC_WORDS["model_type"]:
        allowed = f"must be set by {', '.join(inside)}, as in {inside[0]}=false"
        return ConfigError(error.key, as_typed(error.value), allowed)
    if LITERALS.match(error.allowed):
        options = re.findall(r"'([^']+)'", error.allowed)
        if meant := same(value, options):
            return ConfigError(error.key, error.value, f"write {error.key}={meant}")
        if close := nearest(value, options):
            suggestion = f"{error.allowed}; did you mean {error.key}={close}?"
            return ConfigError(error.key, error.value, suggestion)
    return error


def text_to_type(key: str, value: object, config: Mapping[str, object]) -> str:
    """Return what to write to give a value as text, in the quotes that a shell removes.

    Args:
        key: the key; that of a list's element ends with its index.
        value: the value.
        config: the composed configuration.
    """
    if isinstance(value, dict | list):
        return ""
    group, _, last = key.rpartition(".")
    elements = flat(config).get(group) if last.isdecimal() else None
    if elements is None:
        return f'; write "{key}={quoted(as_typed(value))}"'
    texts = [quoted(as_typed(each)) for each in json.loads(str(elements))]
    return f'; write "{group}=[{",".join(texts)}]"'


def without(config: Mapping[str, object], key: str) -> dict[str, object]:
    """Return a configuration without one key, which may be dotted."""
    first, _, rest = key.partition(".")
    kept = {name: part for name, part in config.items() if name != first}
    part = config.get(first)
    return {**kept, first: without(part, rest)} if rest and isinstance(part, Mapping) else kept
