"""Tables of numbers with their schemas: real ones of scikit-learn, and small ones."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from sklearn import datasets

PEOPLE = 40


def write(root: Path, schema: dict[str, Any], rows: Sequence[dict[str, object]]) -> Path:
    """Write a table and its schema into a directory; return the directory."""
    root.mkdir(exist_ok=True, parents=True)
    with (root / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (root / "schema.yaml").write_text(yaml.safe_dump(schema, sort_keys=False))
    return root


def of_sklearn(root: Path, name: str) -> Path:
    """Write scikit-learn's ``breast_cancer`` or ``wine``; return the directory."""
    found = getattr(datasets, f"load_{name}")()
    names = [str(column) for column in found.feature_names]
    classes = [str(label) for label in found.target_names]
    columns = [
        {
            "name": column, "type": "number", "low": 0, "high": float(values.max() * 2),
            "mean": float(values.mean()), "deviation": float(values.std()),
        }
        for column, values in zip(names, found.data.T, strict=True)
    ]  # fmt: skip
    rows = [
        {"class": classes[label], **dict(zip(names, map(float, values), strict=True))}
        for values, label in zip(found.data, found.target, strict=True)
    ]
    schema = {"label": {"name": "class", "classes": classes}, "columns": columns}
    return write(root, schema, rows)


LABELS = ("tired", "warm", "pale")


def of_labels(root: Path, number: int = 120) -> Path:
    """Write rows that each have any of three labels, and a schema; return the directory."""
    found, labels = datasets.make_multilabel_classification(
        number, n_features=6, n_classes=len(LABELS), n_labels=1, random_state=3
    )
    names = [f"x{place}" for place in range(6)]
    rows: list[dict[str, object]] = [
        dict(zip((*names, *LABELS), [*map(float, values), *map(int, own)], strict=True))
        for values, own in zip(found, labels, strict=True)
    ]
    columns = [{"name": name, "type": "number", "low": 0, "high": 100} for name in names]
    return write(root, {"labels": list(LABELS), "columns": columns}, rows)


def people_schema() -> dict[str, Any]:
    """Return a schema with each type of column."""
    return {
        "label": {"name": "ill", "classes": ["no", "yes"]},
        "client": "hospital",
        "subject": "patient",
        "columns": [
            {"name": "Age", "type": "number", "unit": "years", "low": 0, "high": 120,
             "missing": "mean", "mean": 50, "deviation": 10},
            {"name": "dose", "type": "number", "low": -1, "high": 1, "missing": "indicator",
             "mean": 0, "deviation": 0.5},
            {"name": "blood", "type": "category", "categories": ["A", "B", "0"],
             "missing": "indicator"},
            {"name": "smokes", "type": "flag"},
        ],
    }  # fmt: skip


def people(number: int = PEOPLE) -> list[dict[str, object]]:
    """Return rows for `people_schema`; each patient has two, and some cells are empty."""
    return [
        {
            "patient": f"p{index // 2}",
            "hospital": ("north", "south")[index // 2 % 2],
            "ill": ("no", "yes")[index // 4 % 2],
            "Age": "" if index % 7 == 3 else 20 + index,
            "dose": "NA" if index % 5 == 4 else round(index / number - 0.5, 3),
            "blood": ("A", "B", "0", "")[index % 4],
            "smokes": ("yes", "no")[index % 3 == 0],
            "unused": "x",
        }
        for index in range(number)
    ]


def at_sites(root: Path, names: Sequence[str]) -> Path:
    """Write a table for each site, and the schema for their coordinator; return `root`."""
    schema, rows = people_schema(), people(20 * len(names))
    for place, name in enumerate(names):
        write(root / name, schema, rows[20 * place : 20 * (place + 1)])
    (root / "schema.yaml").write_text(yaml.safe_dump(schema))
    return root
