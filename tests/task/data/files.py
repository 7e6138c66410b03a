"""Image files written byte by byte, from the definitions of their formats."""

import struct
import zlib
from collections.abc import Mapping, Sequence

SIZES = {1: "B", 3: "H", 4: "I"}  # of TIFF's kinds of values


def packed(values: Sequence[int], bits: int, order: str = ">") -> bytes:
    """Return values of 1 to 16 bits; fewer than 8 bits are packed from the highest bit on."""
    if bits in (8, 16):
        return struct.pack(f"{order}{len(values)}{'B' if bits == 8 else 'H'}", *values)
    text = "".join(f"{value:0{bits}b}" for value in values)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def png(
    rows: Sequence[bytes], width: int, bits: int, colour: int, more: Mapping[bytes, bytes]
) -> bytes:
    """Return a PNG file; `colour` is 0 for grey, 2 colour, 3 palette, 4 and 6 with transparency."""
    header = struct.pack(">IIBBBBB", width, len(rows), bits, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    chunks = {b"IHDR": header, **more, b"IDAT": pixels, b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks.items()
    )


def tiff(
    rows: Sequence[bytes],
    width: int,
    bits: int,
    photometric: int,
    samples: int = 1,
    order: str = "<",
    more: Mapping[int, Sequence[int]] | None = None,
) -> bytes:
    """Return an uncompressed TIFF file in one strip; `more` are further tags of 16-bit values."""
    data = b"".join(rows)
    tags: dict[int, tuple[int, Sequence[int]]] = {
        256: (4, [width]), 257: (4, [len(rows)]), 258: (3, [bits] * samples), 259: (3, [1]),
        262: (3, [photometric]), 273: (4, [0]), 277: (3, [samples]), 278: (4, [len(rows)]),
        279: (4, [len(data)]),
    }  # fmt: skip
    tags |= {tag: (3, values) for tag, values in (more or {}).items()}
    start = 8 + 2 + 12 * len(tags) + 4
    pixels = start + sum(
        size
        for kind, values in tags.values()
        if (size := struct.calcsize(SIZES[kind]) * len(values)) > 4
    )
    tags[273] = (4, [pixels])
    entries, values_behind = b"", b""
    for tag, (kind, values) in sorted(tags.items()):
        raw = struct.pack(f"{order}{len(values)}{SIZES[kind]}", *values)
        if len(raw) > 4:
            place, values_behind = start + len(values_behind), values_behind + raw
            raw = struct.pack(f"{order}I", place)
        entries += struct.pack(f"{order}HHI", tag, kind, len(values)) + raw.ljust(4, b"\0")
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HIH", 42, 8, len(tags))
    return head + entries + bytes(4) + values_behind + data


def netpbm(kind: int, values: Sequence[Sequence[int]], width: int, largest: int) -> bytes:
    """Return a PGM (kind 2 or 5) or PPM file (3 or 6): as text, or as bytes."""
    head = f"P{kind}\n# a comment\n{width} {len(values)}\n{largest}\n".encode()
    if kind < 4:
        return head + "\n".join(" ".join(map(str, row)) for row in values).encode()
    return head + b"".join(packed(row, 8 if largest < 256 else 16) for row in values)
