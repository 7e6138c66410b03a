"""The names of components and recorded values as people write them: ``FedAvg`` for ``fedavg``."""

from server_app.runs.records.client_counts import CountSummary
from server_app.runs.records.metrics import METRICS

LABELS = {
    "after": {
        "batch_norm": "batch norm measured again", "ccvr": "CCVR", "feddf": "FedDF",
        "finetune": "fine-tuning", "ridge": "ridge regression",
    },
    "method": {
        "fedalign": "FedAlign", "fedavg": "FedAvg", "feddecorr": "FedDecorr", "feddyn": "FedDyn",
        "fedetf": "FedETF", "fedexp": "FedExP", "fedlc": "FedLC", "fedlesam": "FedLESAM",
        "fedbn": "FedBN", "fednova": "FedNova", "fedntd": "FedNTD", "fedper": "FedPer",
        "fedprox": "FedProx", "fedrcl": "FedRCL", "fedrep": "FedRep", "fedrs": "FedRS",
        "fedsol": "FedSOL",
        "feduv": "FedUV", "fedvls": "FedVLS", "freeze": "Freeze", "gradaug": "GradAug",
        "mixup": "Mixup",
        "moon": "MOON", "ncm": "NCM", "ridge": "Ridge", "scaffold": "SCAFFOLD",
        "stochdepth": "StochDepth",
        "univarfl": "UniVarFL",
    },
    "strategy": {
        "bulyan": "Bulyan", "dp_adaptive": "DP, adaptive clipping",
        "dp_client_fixed": "DP, clipping by clients", "dp_fixed": "DP, fixed clipping",
        "fedadagrad": "FedAdagrad", "fedadam": "FedAdam", "fedavg": "FedAvg",
        "fedavgm": "FedAvgM", "fedbuff": "FedBuff", "fedmedian": "FedMedian",
        "fedtrimmedavg": "FedTrimmedAvg", "fedyogi": "FedYogi", "krum": "Krum",
        "multikrum": "Multi-Krum",
    },
    "data": {
        "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "emnist": "EMNIST",
        "fashion_mnist": "Fashion-MNIST", "ham10000": "HAM10000",
        "imagenet200": "ImageNet-200", "mnist": "MNIST", "office_home": "Office-Home",
        "pacs": "PACS", "stl10": "STL-10", "svhn": "SVHN", "tiny_imagenet": "Tiny ImageNet",
    },
    "model": {
        "cnn": "CNN", "lenet": "LeNet-5", "resnet18": "ResNet-18", "resnet50": "ResNet-50",
        "resnet56": "ResNet-56",
    },
}  # fmt: skip
JOINT = "+"  # between methods that are combined


def label_of(group: str, name: str) -> str:
    """Return the label of a component; that of another package is its name.

    Args:
        group: its group of the configuration, such as "method".
        name: its name there; methods may be joined, as in "fedprox+moon".
    """
    known = LABELS.get(group, {})
    return JOINT.join(known.get(part, part) for part in name.split(JOINT))


def name_of(group: str, label: str) -> str:
    """Return the label that a typed word stands for: a name or a label, in any case."""
    labels = {text.lower(): text for text in LABELS.get(group, {}).values()}
    parts = (label_of(group, part.lower()) for part in label.split(JOINT))
    return JOINT.join(labels.get(part.lower(), part) for part in parts)


def client_count(recorded: list[int] | CountSummary) -> int:
    """Return the number of clients in what `recorded_counts` returned."""
    count = len(recorded) if isinstance(recorded, list) else recorded["count"]
    assert isinstance(count, int)
    return count


def counts_in_words(recorded: list[int] | CountSummary) -> str:
    """Return what `recorded_counts` returned, for a person: a list, or the spread."""
    if isinstance(recorded, list):
        return ", ".join(map(str, recorded))
    return f"{recorded['min']} to {recorded['max']}, median {recorded['median']}"


def label_of_metric(name: str) -> str:
    """Return a metric's label with its unit."""
    return METRICS[name].heading if name in METRICS else name.replace("_", " ")


def shown_value(name: str, value: float) -> float:
    """Return a recorded value in the unit of its metric's label."""
    return round(100 * value, 9) if name in METRICS and METRICS[name].percent else value
