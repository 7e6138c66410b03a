"""The base of every message: how it is written, read and checked."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from task.errors import ProtocolError
from task.plain_text import MAX_LINE, one_line, printable
from task.protocol.packed import Packed
from task.protocol.tensors import PackedTensors

NOT_JSON = "its header is not JSON"
MAX_HEADER_BYTES = 64_000_000
Line = Annotated[str, Field(max_length=MAX_LINE), AfterValidator(printable)]
Count = Annotated[int, Field(ge=0, le=10**12)]
RoundNumber = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=0, le=10**9)]
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def read_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object in UTF-8 that the bytes hold.

    Raises:
        ProtocolError: they hold something else, a key twice, an integer of more than 4,300
            digits, or too many levels. NaN and infinite numbers are left to each field.
    """
    try:
        found = json.loads(content.decode(), object_pairs_hook=_each_key_once)
    except ProtocolError:
        raise
    except (ValueError, RecursionError):
        raise ProtocolError(NOT_JSON) from None
    if not isinstance(found, dict):
        raise ProtocolError("its header is not a JSON object")
    return found


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ProtocolError("its header holds a key twice")
    return found


def directory_name(run: str) -> str:
    """Return the name of a run's directory: a hash, so that a message's text is never a path."""
    return hashlib.sha256(run.encode()).hexdigest()[:32]


class Schema(BaseModel):
    """Typed fields. Unknown fields, other types and numbers that are not finite are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )

    @classmethod
    def checked(cls, fields: Mapping[str, Any]) -> Self:
        """Build an instance from fields that another machine sent.

        Raises:
            ProtocolError: a field is missing, unknown or out of bounds.
        """
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in problem["loc"])
            reason = problem["msg"].removeprefix("Value error, ")
            text = f"{place}: {reason}" if place else reason
            raise ProtocolError(one_line(text)) from None


class Message(Schema):
    """A message. Its fields are the subclass's annotations; each new field is one line.

    A field of type `PackedTensors` travels as one array. A field of type
    ``dict[str, PackedTensors]`` is a group: one array for each key. All other fields travel as
    JSON, with the bounds of their types.
    """

    array_fields: ClassVar[tuple[str, ...]] = ()
    group_fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        kinds = {name: field.annotation for name, field in cls.model_fields.items()}
        cls.array_fields = tuple(name for name, kind in kinds.items() if kind is PackedTensors)
        group = dict[str, PackedTensors]
        cls.group_fields = tuple(name for name, kind in kinds.items() if kind == group)

    def pack(self) -> Packed:
        """Write the message."""
        arrays = {name: getattr(self, name).data for name in self.array_fields}
        for name in self.group_fields:
            for key, value in getattr(self, name).items():
                arrays[f"{name}/{key}"] = value.data
        fields = self.model_dump(exclude={*self.array_fields, *self.group_fields})
        header = json.dumps(fields, allow_nan=False).encode()
        return Packed(header, {name: data for name, data in arrays.items() if data})

    @classmethod
    def unpack(cls, packed: Packed) -> Self:
        """Read and check a message.

        Raises:
            ProtocolError: it does not have this form, or exceeds its bounds.
        """
        if len(packed.header) > MAX_HEADER_BYTES:
            raise ProtocolError(f"its header is larger than {MAX_HEADER_BYTES} bytes")
        fields = read_object(packed.header)
        arrays: dict[str, Any] = {name: {} for name in cls.group_fields}
        for place, data in packed.arrays.items():
            name, _, key = place.partition("/")
            if key and name in cls.group_fields:
                arrays[name][key] = PackedTensors(data)
            elif place in cls.array_fields:
                arrays[place] = PackedTensors(data)
            else:
                raise ProtocolError(one_line(f"unknown array {place!r}"))
        return cls.checked({**fields, **arrays})
