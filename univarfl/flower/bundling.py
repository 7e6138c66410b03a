"""Run ``flwr`` so that the bundle of code that it builds is compressed.

Called as ``python bundling.py PROGRAM ARGUMENT...`` with the path of ``flwr``. Flower opens the
bundle as a compressed archive, and then stores each file as it is. Every site loads the bundle
before each run, also over a slow line, although it uses none of it.

This file imports no other module of the project, so that it starts at once.
"""

import runpy
import sys
import zipfile
from typing import Any


def compress_bundles() -> None:
    """Compress each file of an archive that is opened with a compression."""
    write = zipfile.ZipFile.writestr

    def compressed(
        archive: zipfile.ZipFile, name: zipfile.ZipInfo | str, data: Any,
        compress_type: int | None = None, compresslevel: int | None = None,
    ) -> None:  # fmt: skip
        kind = archive.compression if compress_type is None else compress_type
        write(archive, name, data, kind, compresslevel)

    zipfile.ZipFile.writestr = compressed  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    compress_bundles()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
