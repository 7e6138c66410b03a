"""Text as Hydra reads it."""

import re


def quoted(text: str) -> str:
    """A string as a Hydra value, whatever it holds.

    OmegaConf reads ``${`` as a reference and Hydra ``'`` as the end. A backslash in front takes
    that away, and only there has it to be doubled to stand for itself.
    """
    plain = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    inner = re.sub(r"(\\*)('|$)", lambda m: 2 * m[1] + (r"\'" if m[2] else ""), plain)
    return f"'{inner}'"
