"""The reference of the settings that are no components: general, workers, optimizer, runtime."""

from collections.abc import Mapping
from typing import Any

from docs.generator.comments import Key, read_file
from docs.generator.components import Setting, settings_table
from docs.generator.types import describe, hints
from server_app.config.choices import CONF
from server_app.config.experiment import Experiment, FederationConfig, Stop, Sums, Watch
from task.config import AdamW, Loss, Runtime, Secure, Sgd, Update
from task.data.sources.base import Source
from task.privacy.settings import Privacy

INTRODUCTION = """# Settings

These keys describe a run. Type them as `key=value` after `univarfl train`, `config`, `sweep`,
`data` or `deploy run`. Unknown keys and values out of range are refused before anything starts.

The keys of the groups `method`, `strategy`, `guard`, `participation`, `clock`, `after`, `data`,
`partition`, `augmentation`, `model` and `tune` depend on the choice, and `task` is `classes` or
[`multilabel`](../how-to/learn-several-labels.md): see [methods](methods/index.md),
[strategies](strategies.md), [guards](guards.md),
[participation and clock](participation.md), [after training](after-training.md),
[data sets](data/index.md), [splits](splits.md) and [networks](networks.md).
"""
HANDLED = (
    "name",
    "published",
    "secure.start",
    "task.name",
)  # set by choices and files, not by hand


def general() -> list[Setting]:
    """Return the settings of the first level of ``conf/config.yaml``, and of ``watch``."""
    types = hints(Experiment) | {f"watch.{name}": hint for name, hint in hints(Watch).items()}
    types |= {f"sums.{name}": hint for name, hint in hints(Sums).items()}
    types |= {f"train.{name}": hint for name, hint in hints(Loss).items()}
    types |= {f"data.{name}": hint for name, hint in hints(Source).items()}
    return described(read_file(CONF / "config.yaml").keys, types, "")


def group(folder: str, file: str, kind: type) -> list[Setting]:
    """Return the settings of one file of a configuration group."""
    return described(read_file(CONF / folder / f"{file}.yaml").keys, hints(kind), f"{folder}.")


def described(found: Mapping[str, Key], types: Mapping[str, Any], prefix: str) -> list[Setting]:
    """Return the settings of a YAML file's keys, with the types of its schema."""
    return [
        Setting(f"{prefix}{name}", describe(types[name]), key.default, key.comment)
        for name, key in found.items()
        if name not in HANDLED
    ]


def sections() -> dict[str, list[Setting]]:
    """Return every setting by the title of its section."""
    return {
        "General": general(),
        "Workers in simulation": group("federation", "local", FederationConfig),
        "Sites": group("federation", "sites", FederationConfig),
        "Optimizer": group("optim", "sgd", Sgd),
        "AdamW": group("optim", "adamw", AdamW),
        "Updates": group("update", "int8", Update),
        "End of a run": group("stop", "patience", Stop),
        "Runtime": group("runtime", "eager", Runtime),
        "Privacy of each image": group("privacy", "example", Privacy),
        "Privacy of whole clients": group("privacy", "client", Privacy),
        "Secure aggregation": group("secure", "masked", Secure),
    }


def page() -> str:
    """Return the page of settings."""
    notes = {
        "Workers in simulation": "The file `conf/federation/local.yaml`.",
        "Sites": "The file `conf/federation/sites.yaml`, which `partition=sites` chooses.",
        "Optimizer": f"`optim=sgd` is the default. {read_file(CONF / 'optim' / 'sgd.yaml').about}",
        "AdamW": f"`optim=adamw` has these keys. {read_file(CONF / 'optim' / 'adamw.yaml').about}",
        "Updates": "`update=float32` is the default; `update=bfloat16` and `update=int8` have "
        "these keys. See [Send fewer bytes](../how-to/send-fewer-bytes.md).",
        "End of a run": "`stop=none` is the default; `stop=patience` has these keys.",
        "Privacy of each image": "`privacy=none` is the default; `privacy=example` has these keys. "
        f"{read_file(CONF / 'privacy' / 'example.yaml').about}",
        "Privacy of whole clients": "`privacy=client` has these keys. "
        f"{read_file(CONF / 'privacy' / 'client.yaml').about}",
        "Runtime": "`runtime=eager` is the default; `runtime=compiled` sets `compiled`, and "
        "`runtime=graphed` sets `graphed`.",
        "Secure aggregation": "`secure=none` is the default; `secure=masked` has these keys. See "
        "[Secure aggregation](../explanation/secure-aggregation.md). The default of `secure.mode` "
        "is `none`.",
    }
    parts = [INTRODUCTION.strip()]
    for title, found in sections().items():
        parts += [f"## {title}", notes.get(title, ""), settings_table(found)]
    return "\n\n".join(part for part in parts if part) + "\n"
