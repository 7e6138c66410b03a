"""Components found by file name: ``conf/method/univarfl.yaml`` names ``task/methods/univarfl.py``.

A component is a dataclass, and its fields are the settings that its YAML file may have. To add one,
add the two files, here or in another package (`task.extensions`). One setting names other code:
the ``target`` of ``model=module``, which a site runs only if its owner lists the package.
"""

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from task.errors import ConfigError
from task.extensions import BASES, PACKAGES, extensions, own_names


def as_names(value: Any) -> Any:
    """Return a list with its integers as text, as names of classes and sites are often numbers."""
    if not isinstance(value, list):
        return value
    return [str(name) if type(name) is int else name for name in value]


Names = Annotated[list[str], BeforeValidator(as_names)]

PYDANTIC_WORDS = {
    "extra_forbidden": "unknown key",
    "list_type": "must be a list, as in [a,b]",
    "missing": "a value is required",
    "model_type": "must be several settings, each with a key of its own",
    "string_type": "must be text; put numbers, true, false and null in quotes",
    "string_pattern_mismatch": "must be letters, digits, '.', '_', '+' and '-', and begin with a "
    "letter or digit",
    "unexpected_keyword_argument": "unknown key",
}


def names(group: str) -> list[str]:
    """Return the names of a group's components, with those of other installed packages.

    Args:
        group: a group of the configuration, such as "method".
    """
    return sorted({*own_names(PACKAGES[group]), *extensions(group)})


def module_of(group: str, name: str) -> str:
    """Return the module of a component."""
    extension = extensions(group).get(name)
    return extension.module if extension else f"{PACKAGES[group]}.{name}"


def require_component(group: str, name: object) -> None:
    """Refuse a name that no component of the group has.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in names(group):
        raise ConfigError(f"{group}.name", name, f"choose one of {', '.join(names(group))}")


def component_class(group: str, name: str) -> Any:
    """Return the class of a component: the subclass of its group's base that its module defines.

    Raises:
        TypeError: the module defines none, or several.
    """
    base = named(BASES[group])
    module = importlib.import_module(module_of(group, name))
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise TypeError(f"{module.__name__} must define one {base.__name__}, not {len(found)}")
    return found[0]


def create(group: str, settings: Mapping[str, Any]) -> Any:
    """Build the component that ``settings["name"]`` names, from the other settings.

    Raises:
        ConfigError: the name is unknown, or a setting is unknown, of a wrong type or out of range.
    """
    fields = dict(settings)
    name = fields.pop("name", None)
    require_component(group, name)
    try:
        reader = _reader(component_class(group, str(name)))
        return reader.validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        raise first_error(error).under(group) from None


def named(place: str) -> Any:
    """Return what ``module:NAME`` names; the text is from this code, never from a message."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@lru_cache(maxsize=256)
def _reader(kind: Any) -> TypeAdapter[Any]:
    """Return what reads the settings of a component; it takes 2 ms to build."""
    return TypeAdapter(kind)


@contextmanager
def explained() -> Iterator[None]:
    """Turn pydantic's error into that of its first problem.

    Raises:
        ConfigError: there was one.
    """
    try:
        yield
    except ValidationError as error:
        raise first_error(error) from None


def first_error(error: ValidationError) -> ConfigError:
    """Return the first problem that pydantic found, with key, value and what is allowed."""
    problem = error.errors()[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    key = ".".join(str(part) for part in problem["loc"])
    words = PYDANTIC_WORDS.get(problem["type"], problem["msg"].replace("Input should", "must"))
    value = "" if problem["type"] == "missing" else problem["input"]
    return ConfigError(key, value, words, problem["type"])
