"""Plain words for the types and limits of settings."""

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

WORDS = {int: "integer", float: "number", str: "text", bool: "`true` or `false`"}
LIMITS = {Gt: "above {gt}", Ge: "at least {ge}", Lt: "below {lt}", Le: "at most {le}"}


def describe(hint: Any) -> str:
    """Return the words for a type hint, such as "integer, at least 1, or `null`"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return ", ".join([describe(arguments[0]), *limits(arguments[1:])])
    if origin in (Union, types.UnionType):
        kinds = [describe(each) for each in arguments if each is not types.NoneType]
        return ", or ".join([*kinds, "`null`"] if type(None) in arguments else kinds)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {WORDS.get(arguments[0], 'entries')}"
    return WORDS.get(hint, "group")


def limits(metadata: tuple[Any, ...]) -> Iterator[str]:
    """Yield the words for the limits in the metadata of a type."""
    for each in metadata:
        for limit in each.metadata if isinstance(each, FieldInfo) else [each]:
            for kind, words in LIMITS.items():
                if isinstance(limit, kind):
                    yield words.format(**vars_of(limit))


def vars_of(limit: Any) -> dict[str, Any]:
    """Return the value of a limit by the name of its field."""
    return {name: getattr(limit, name) for name in limit.__slots__ or limit.__dataclass_fields__}


def hints(kind: type) -> dict[str, Any]:
    """Return the type hints of a class's fields, with their limits."""
    return typing.get_type_hints(kind, include_extras=True)
