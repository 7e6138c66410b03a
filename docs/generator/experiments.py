"""The reference of the papers' settings, protocols and sweeps that ``conf/`` has."""

from docs.generator.comments import read_file
from docs.generator.markdown import code, from_docstring, table
from server_app.config.choices import CONF, SWEEPS, names_in

INTRODUCTION = """# Experiments, protocols and sweeps

`experiment=NAME` selects the settings of a paper for one data set, and the published numbers that a
report shows beside runs of the same settings. `protocol=NAME` follows a paper's text or the program
that its authors released. `sweep=NAME` runs a whole table or figure;
[reproduce a table](../how-to/reproduce-a-table.md) shows how.
"""
SECTIONS = (("Experiments", "experiment"), ("Protocols", "protocol"), ("Sweeps", SWEEPS))


def page() -> str:
    """Return the page of experiments and sweeps."""
    parts = [INTRODUCTION.strip()]
    for title, folder in SECTIONS:
        rows = [
            (code(f"{folder}={name}"), from_docstring(read_file(path).about))
            for name in names_in(folder)
            for path in [CONF / folder / f"{name}.yaml"]
        ]
        parts += [f"## {title}", table(("Choice", "Content"), rows)]
    return "\n\n".join(parts) + "\n"
