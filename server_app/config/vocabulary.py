"""What a person means by a word that is no setting, and what to type instead.

Every word comes from ``conf/``: keys and choices, the symbols that the comments name, and the
words of papers and other programs in ``aliases.yaml``. One that has a meaning is answered by
"write ...", and one that is only spelled like another by "did you mean ...?".
"""

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from omegaconf import OmegaConf

from server_app.config.choices import CONF, SWEEPS, choices, files_in, names_in
from server_app.config.conf_settings import NAME, choices_with, every_key, general_settings
from server_app.config.override_text import as_typed, flat, quoted
from task.errors import ConfigError
from task.extensions import PLUS
from task.plain_text import escaped

CLOSE = 0.65  # the least similarity of a suggestion, from 0 to 1
EXACT = 1.0  # the similarity of words that differ in case and signs alone
SYMBOLS = "alpha|beta|epsilon|eta|lambda|mu|rho|tau"  # of the papers
# The comments in conf/ name them, as in "radius: 0.1  # rho; the release's README has 0.5".
SYMBOL = re.compile(rf"^(\w+):[^#\n]*#(?:[^;\n]*,| the paper's)? ({SYMBOLS})(?= of |;|$)", re.M)
MOST = 8  # how many choices of a group an answer names
NEUTRAL = ("none", "local")  # choices that say nothing about the group meant
OFF = ("false", "no", "off", "none", "null", "0")  # values that switch something off
NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
NUMBER_MEANS = {"participation": "rho", "partition": "alpha"}  # for a number in place of a name
NOISE = re.compile(r"((privacy|strategy|dp)\.)?((dp|target)[-_]?)?noise([-_]?multiplier)?", re.I)
EPSILON = re.compile(r"((privacy|strategy|dp)\.)?((dp|target)[-_]?)?epsilon", re.I)
USUAL = "1.0"  # the noise multiplier of conf/privacy/example.yaml
# An override of up to three words, in any form, such as "--method fedavg" or "method: fedavg".
FORM = re.compile(r"(-*)([^\n=:~]+)(\n?=+\n?|:\n?|\n|$)([^\n]*)")


class Word(NamedTuple):
    """A word that people may type.

    Attributes:
        name: the word in its `plain` spelling.
        meaning: a key, or an override with a value such as ``device=cuda``.
        other: the value that is meant instead if the word is switched off, as in gpu=false.
        choice: for the symbol of a paper, the choice that has it, such as ``method=moon``.
    """

    name: str
    meaning: str
    other: str = ""
    choice: str = ""

    @property
    def group(self) -> str:
        """The first part of the key that is meant, which is the key if that has no dot."""
        return re.split("[.=]", self.meaning)[0]

    @property
    def needs(self) -> str:
        """The choice or key without which the word means nothing."""
        return self.choice or self.meaning.partition("=")[0]


@cache
def vocabulary() -> list[Word]:
    """Return keys, aliases, last parts of keys, and choices; each kind hides the later ones."""
    aliases = {str(key): str(words) for key, words in OmegaConf.load(CONF / "aliases.yaml").items()}
    kinds = (
        [Word(plain(key), key) for key in every_key()],
        [Word(plain(word), *key.split("/")) for key in aliases for word in aliases[key].split()],
        [Word(plain(leaf(key)), key) for key in every_key()],
        [Word(plain(name), f"{group}={name}") for group in choices() for name in choices()[group]],
    )
    found: list[Word] = []
    for words in kinds:
        hidden = {word.name for word in found}
        found += [word for word in words if word.name not in hidden]
    return found


@cache
def symbols() -> list[Word]:
    """Return the symbols of the methods' and strategies' papers, such as mu."""
    return [
        Word(symbol, f"{group}.{key}", choice=f"{group}={name}")
        for group in ("method", "strategy")
        for name, file in sorted(files_in(group).items())
        for key, symbol in SYMBOL.findall(file.read_text())
    ]


def meanings(typed: str, words: Collection[Word]) -> list[Word]:
    """Return the words that are spelled as one that was typed, or else as its last part."""
    for name in (plain(typed), plain(leaf(typed))):
        if found := [word for word in words if word.name == name]:
            return found
    return []


def nearest(typed: str, options: Collection[str], least: float = CLOSE) -> str | None:
    """Return the option that is spelled most like a word, or ends with it; None if all differ much.

    Upper and lower case, and signs such as ``-`` and ``_``, make no difference.
    """
    name, likeness = plain(typed), {}
    for option in sorted(options):
        likeness[option] = difflib.SequenceMatcher(None, plain(option), name).ratio()
        if len(name) > 1 and plain(option).endswith(name):
            likeness[option] = max(likeness[option], CLOSE)
    best = max(likeness, key=likeness.__getitem__, default="")
    return best if likeness.get(best, 0) >= least else None


def plain(word: str) -> str:
    """Return a word in lower case, with letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def leaf(key: str) -> str:
    """Return the last part of a dotted key."""
    return key.rpartition(".")[2]


def check_forms(words: Sequence[str]) -> None:
    """Refuse words that are not ``key=value`` if it is clear what to type instead.

    Raises:
        ConfigError: a word has a wrong form; the message has the right one.
    """
    for place in range(len(words)):
        typed, meant = read_form(words[place : place + 3])
        if meant:
            raise ConfigError("override", typed, f"write {escaped(meant)}")


def read_form(words: Sequence[str]) -> tuple[str, str]:
    """Return what was typed and what it means, from a word and those after it.

    The meaning is empty if the word has the right form, or cannot be understood.
    """
    form = FORM.match("\n".join(words))
    if not form or (form[1], form[3]) == ("", "="):
        return words[0], ""
    dashes, word, sign, value = form.groups()
    found = list(dict.fromkeys(each.meaning for each in meanings(word, vocabulary())))
    other = "=" in value or (sign == "\n" and value.startswith("-"))  # the next word is another
    alone = not value or (sign.endswith("\n") and other)
    if alone and not dashes and "=" in sign:  # data.root= rounds=3
        return words[0], ""
    if len(found) == 1 and "=" not in found[0]:
        if alone:
            return words[0], f"{found[0]}=VALUE"
        spaces = ["", ", without a space", ", without spaces"][sign.strip("=").count("\n")]
        return form[0].replace("\n", " "), f"{found[0]}={value}{spaces if '=' in sign else ''}"
    bare = not dashes and sign in ("", "\n") and all("=" in meaning for meaning in found)
    return words[0], " or ".join(found) if bare else ""


def unknown_key(key: str, value: str, config: Mapping[str, object]) -> ConfigError:
    """Return the error for an unknown key of a configuration, with what to type instead."""
    if key == SWEEPS:
        table = nearest(value, names_in(SWEEPS)) or "NAME"
        cure = f'write univarfl sweep {key}={table}, or in Python univarfl.sweep({key}="{table}")'
    elif owners := choices_with().get(key):
        cure = f"{settings_beside(key, config)}; {key} belongs to {listed(owners)}"
    elif NOISE.fullmatch(key) or EPSILON.fullmatch(key):
        cure = noise_to_type(key, value, config)
    else:
        cure = key_to_type(key, value, config)
    return ConfigError(key, value, f"unknown key; {cure}")


def key_to_type(key: str, value: str, config: Mapping[str, object]) -> str:
    """Return what to type instead of an unknown key: by its meaning, else by its spelling.

    A key in a group, such as ``data.alpha``, means a setting of the group, or a general one.
    """
    beside = settings_beside(key, config)
    group = key.partition(".")[0] if beside else ""
    words = [word for word in vocabulary() if not group or word.group in (group, word.meaning)]
    present = present_in(config)
    found = meanings(key, [*symbols(), *words])
    found = [word for word in found if word.group == group] or found
    now = [word for word in found if word.needs in present]
    if found and (now or not found[0].choice):
        return f"write {overrides_for(now or found, value, present)}"
    if found:
        owners = listed(word.choice for word in found if word.choice)
        return f"{beside}{'; ' if beside else ''}{leaf(key)} belongs to {owners}"
    if group:
        words = [word for word in words if word.group == group and word.needs in present]
    for typed in (key.removeprefix(f"{group}."), leaf(key)):
        if name := nearest(typed, {word.name for word in words}):
            return f"did you mean {overrides_for(meanings(name, words), value, present)}?"
    return beside or "'univarfl list keys' shows every key"


def settings_beside(key: str, config: Mapping[str, object]) -> str:
    """Return a sentence with the settings of a key's group; empty if the key is in no group."""
    group, dot, _ = key.partition(".")
    known = config.get(group)
    if not dot or not isinstance(known, Mapping):
        return ""
    keys = ", ".join(name for name in known if f"{group}.{name}" in every_key())
    return f"{f'{group}={known[NAME]}' if NAME in known else group} has {keys or 'no settings'}"


def present_in(config: Mapping[str, object]) -> set[str]:
    """Return the keys of a configuration, its groups, and its choices as ``GROUP=NAME``."""
    known = flat(config)
    names = {group: str(known.get(f"{group}.{NAME}")).split(PLUS) for group in choices()}
    return {*known, *config, *(f"{group}={name}" for group in names for name in names[group])}


def overrides_for(words: Iterable[Word], value: str, present: Collection[str]) -> str:
    """Return the overrides that set what some words mean to a value."""
    found = {word.meaning: word.other for word in words}
    if plain(value) in OFF and all(found.values()):
        return " or ".join(f"{each.partition('=')[0]}={found[each]}" for each in found)
    return ", or ".join(dict.fromkeys(override_for(each, value, present) for each in found))


def override_for(meaning: str, value: str, present: Collection[str]) -> str:
    """Return the override that sets a key, with the choice that has it if it is not present."""
    group, sign, _ = meaning.partition("=")
    if options := choices().get(group):
        named = meaning if sign else f"{group}=NAME, with one of {', '.join(options)}"
        return override_like(group, value, options) or named
    if sign:
        return meaning
    if meaning == "rho" and value.isdecimal() and int(value) > 1:
        return "rho=SHARE, the share of the clients in a round, as rho=0.3 for 3 of 10"
    owners = [] if meaning in present else choices_with().get(meaning, [])
    if len(owners) == 1:
        return f"{owners[0]} {meaning}={value}"
    return f"{meaning}={value}{f' with {listed(owners)}' if owners else ''}"


def listed(owners: Iterable[str]) -> str:
    """Return choices as ``GROUP=A|B|...``."""
    names: dict[str, list[str]] = defaultdict(list)
    for owner in dict.fromkeys(owners):
        group, _, name = owner.partition("=")
        names[group].append(name if len(names[group]) < MOST else "...")
    return ", ".join(f"{group}={'|'.join(names[group][: MOST + 1])}" for group in names)


def noise_to_type(key: str, value: str, config: Mapping[str, object]) -> str:
    """Return what to type for noise, which needs choices beside it, or for epsilon."""
    known, is_noise = flat(config), NOISE.fullmatch(key)
    noise = f"noise_multiplier={value if is_noise and NUMBER.fullmatch(value) else USUAL}"
    norm = "" if known.get("model.norm") == "group" else "model.norm=group "
    none = "leave it out; nothing adds noise without privacy=example or strategy=dp_fixed"
    if known.get("privacy.unit"):
        words, none = f"privacy.{noise}", "write privacy=none"
    elif "strategy.noise_multiplier" in known:
        words, none = f"strategy.{noise}", "write strategy=fedavg"
    elif known.get("secure.mode") == "masked":
        words = f"privacy=client {norm}privacy.{noise}"
    else:  # many methods cannot be trained with noise, and FedAvg always can
        method = known.get("method.name")
        fedavg = "" if method == "fedavg" else "method=fedavg "
        at_server = f"{'' if method == 'univarfl' else fedavg}{norm}strategy.{noise} at the server"
        at_clients = f"{fedavg}{norm}privacy.{noise} for noise at the clients"
        words = f"privacy=example {at_clients}, or strategy=dp_fixed {at_server}"
    if is_noise:
        return none if plain(value) in OFF else f"write {words}"
    chosen = [word for word in symbols() if word.name == key and word.needs in present_in(config)]
    own = [f"; for the method's epsilon write {word.meaning}={value}" for word in chosen]
    reported = "epsilon is reported and cannot be set; the noise multiplier decides it"
    return f"{reported}: write {words}{''.join(own)}"


def override_like(key: str, value: str, options: Iterable[str], least: float = CLOSE) -> str:
    """Return the override whose value is spelled most like the one typed; empty if none is.

    An alias of an option counts as the option. Of methods several may be typed.
    """
    names = {option: option for option in options}
    for word in vocabulary():
        if word.meaning.startswith(f"{key}="):
            names[word.name] = word.meaning.partition("=")[2]
    typed = re.split(r"[+,]", value) if key == "method" else [value]
    found = [nearest(name, names, least) for name in typed]
    return f"{key}={PLUS.join(names[name] for name in found if name)}" if all(found) else ""


def unknown_choice(group: str, value: str) -> ConfigError:
    """Return the error for an unknown choice of a group, with what to type instead."""
    options = choices()[group]
    others = [
        f"{other}={name}"
        for other, names in choices().items()
        if other != group and (name := nearest(value, names, EXACT)) and name not in NEUTRAL
    ]
    if exact := override_like(group, value, options, EXACT):
        cure = f"write {exact}"
        if "," in value:
            cure += "; a sweep makes a run for each of several"
    elif group in NUMBER_MEANS and NUMBER.fullmatch(value):
        cure = f"write {NUMBER_MEANS[group]}={value}"
    elif others:
        article = "an" if group[0] in "aeiou" else "a"
        cure = f"{value} is not {article} {group}; write {' or '.join(others)}"
    else:
        close = override_like(group, value, options)
        cure = f"{f'did you mean {close}? ' if close else ''}choose one of {', '.join(options)}"
        if group == "method":
            cure += ", or join several by +"
    return ConfigError(group, value, cure)


def improved(error: ConfigError, config: Mapping[str, object]) -> ConfigError:
    """Return an error of pydantic about a configuration, with what to type where that is known."""
    key, value, allowed = error.key, error.value, error.allowed
    typed = as_typed(value)
    inside = [known for known in general_settings() if known.startswith(f"{key}.")]
    if error.problem in ("extra_forbidden", "unexpected_keyword_argument"):
        return unknown_key(key, typed, config)
    if error.problem == "string_type":
        single = not isinstance(value, dict | list)
        allowed = f"must be text{f'; write {in_quotes(key, value, config)}' if single else ''}"
    elif error.problem == "literal_error":
        options = re.findall(r"'([^']+)'", allowed)
        if exact := override_like(key, typed, options, EXACT):
            allowed = f"write {exact}"
        elif close := override_like(key, typed, options):
            allowed = f"{allowed}; did you mean {close}?"
    elif error.problem == "model_type" and inside:
        value, allowed = typed, f"must be set by {', '.join(inside)}, as in {inside[0]}=false"
    return ConfigError(key, value, allowed)


def in_quotes(key: str, value: object, config: Mapping[str, object]) -> str:
    """Return the override for a value, or for a list with it, as text, in quotes for a shell."""
    group, _, place = key.rpartition(".")
    if not place.isdecimal():
        return f'"{key}={quoted(as_typed(value))}"'
    texts = [quoted(as_typed(each)) for each in json.loads(flat(config)[group])]
    return f'"{group}=[{",".join(texts)}]"'
