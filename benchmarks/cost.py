"""Measure each method's forward FLOPs and stored numbers relative to FedAvg.

    uv run python -m benchmarks.cost                      (a minute)

As 'univarfl analyse --only cost' does, for resnet56 on images of 32x32 in 100 classes. The step is
one of a client's second round, when its state exists. Prints Table 5 of FedAlign beside it.
"""

from server_app.config.composition import compose_experiment
from task.analysis.cost import Cost, training_cost
from tests.conftest import training_methods

CHANNELS, IMAGE_SIZE, CLASSES = 3, 32, 100
TABLE_5 = {  # relative MFLOPs and parameters
    "fedavg": (1.0, 1.0),
    "fedprox": (1.0, 1.21 / 0.61),
    "moon": (262.2 / 87.3, 2.21 / 0.61),
    "mixup": (1.0, 1.0),
    "stochdepth": (82.4 / 87.3, 1.0),
    "gradaug": (170.7 / 87.3, 1.0),
    "gradaug method.subnetworks=1": (133.9 / 87.3, 1.0),
    "fedalign": (89.1 / 87.3, 1.0),
}


def cost(words: str) -> Cost:
    """Return the cost of a method's training step."""
    local = compose_experiment(["model=resnet56", *f"method={words}".split()]).local()
    return training_cost(local, CHANNELS, IMAGE_SIZE, CLASSES)


def main() -> None:
    """Print the table."""
    base = cost("fedavg")
    print(f"FedAvg: {base.forward / 2e6:.1f} million multiply-adds an image (Table 5: 87.3)\n")
    print("| method | forward FLOPs | Table 5 | stored numbers | Table 5 |\n|---|---|---|---|---|")
    for words in sorted({*training_methods(), *TABLE_5}):
        own = cost(words)
        flops, parameters = [f"{value:.2f}x" for value in TABLE_5.get(words, ())] or ["", ""]
        forward, stored = own.forward / base.forward, own.stored / base.stored
        print(f"| {words} | {forward:.2f}x | {flops} | {stored:.2f}x | {parameters} |", flush=True)


if __name__ == "__main__":
    main()
