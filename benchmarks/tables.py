"""Three tables of numbers, as directories for ``data=vectors``.

    uv run --with lifelines python -m benchmarks.tables DIRECTORY

Written are

* ``breast_cancer``, of scikit-learn: 569 tumours, benign or malignant;
* ``gbsg2``, of lifelines: women with breast cancer (German Breast Cancer Study Group 2), and
  whether it came back within three years;
* ``lung``, of lifelines: patients with lung cancer (North Central Cancer Treatment Group), whether
  they lived for a year, and their hospital.

Patients who were last seen before the end of that time are left out, and so are hospitals with
fewer than nine patients.
"""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from sklearn.datasets import load_breast_cancer

DAYS_OF_A_YEAR = 365
LEAST_PATIENTS = 9  # of a hospital


def main() -> None:
    """Write the three tables."""
    datasets = importlib.import_module("lifelines.datasets")  # not a package of the project
    (place,) = map(Path, sys.argv[1:])
    found = load_breast_cancer(as_frame=True)
    names = [str(name) for name in found.target_names]
    tumours = found.data.assign(kind=[names[number] for number in found.target])
    write(place / "breast_cancer", tumours, "kind", numbers(found.data))

    women = within(datasets.load_gbsg2(), "cens", 3 * DAYS_OF_A_YEAR, ("free", "back"))
    columns = numbers(women[["age", "tsize", "pnodes", "progrec", "estrec"]])
    columns |= {"horTh": {"type": "flag"}, **categories(women[["menostat", "tgrade"]])}
    write(place / "gbsg2", women, "outcome", columns)

    patients = datasets.load_lung().dropna(subset=["inst"])
    patients = within(patients, "status", DAYS_OF_A_YEAR, ("alive", "dead"))
    patients = patients[patients.groupby("inst")["inst"].transform("size") >= LEAST_PATIENTS]
    patients["hospital"] = patients["inst"].astype(int).map("hospital {}".format)
    columns = numbers(patients.drop(columns=["inst", "time", "status", "outcome", "hospital"]))
    write(place / "lung", patients, "outcome", columns, client="hospital")


def within(table: pd.DataFrame, event: str, days: int, names: tuple[str, str]) -> pd.DataFrame:
    """Return the rows whose outcome after some days is known, with its name in ``outcome``."""
    early = table["time"] < days
    known = table[~early | (table[event] == 1)].copy()
    known["outcome"] = [names[came] for came in (known["time"] < days).astype(int)]
    return known


def numbers(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return a schema's columns for numbers; the range is twice as wide as the values."""
    return {
        str(name): {
            "type": "number",
            "low": float(min(0, 2 * values.min())),
            "high": float(2 * values.max()),
            **({"missing": "mean"} if values.isna().any() else {}),
        }
        for name, values in table.items()
    }


def categories(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return a schema's columns for categories."""
    return {
        str(name): {"type": "category", "categories": sorted(map(str, values.unique()))}
        for name, values in table.items()
    }


def write(
    place: Path,
    table: pd.DataFrame,
    label: str,
    columns: Mapping[str, Mapping[str, Any]],
    client: str | None = None,
) -> None:
    """Write ``rows.csv`` and ``schema.yaml``."""
    place.mkdir(parents=True, exist_ok=True)
    classes = sorted(table[label].unique())
    schema: dict[str, Any] = {"label": {"name": label, "classes": classes}}
    if client:
        schema["client"] = client
    schema["columns"] = [{"name": name, **entries} for name, entries in columns.items()]
    (place / "schema.yaml").write_text(yaml.safe_dump(schema, sort_keys=False))
    kept = [*columns, label, *([client] if client else [])]
    table[kept].to_csv(place / "rows.csv", index=False)
    print(f"{place}: {len(table)} rows, {table[label].value_counts().to_dict()}")


if __name__ == "__main__":
    main()
