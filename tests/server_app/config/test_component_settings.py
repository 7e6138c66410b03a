"""Every setting of every component is refused outside its range, by its own name."""

import pytest

from server_app.config.composition import compose_experiment
from task.errors import ConfigError

SETTINGS = {
    "strategy=dp_adaptive model.norm=group": {
        "strategy.initial_clipping_norm=0": "must be above 0",
        "strategy.target_quantile=1.5": "must be from 0 to 1",
        "strategy.clipped_count_deviation=0": "must be above 0, or null",
        "strategy.noise_multiplier=-1": "must be at least 0",
    },
    "strategy=dp_fixed model.norm=group": {
        "strategy.clipping_norm=0": "must be above 0",
        "strategy.delta=0": "must be above 0 and at most 0.001",
        "strategy.delta=0.002": "must be above 0 and at most 0.001",
    },
    "strategy=dp_client_fixed model.norm=group": {"strategy.clipping_norm=0": "must be above 0"},
    "strategy=fedbuff clock=virtual": {
        "strategy.buffer_size=0": "must be at least 1",
        "strategy.server_lr=0": "must be above 0",
        "strategy.staleness_exponent=-1": "must be at least 0",
        "strategy.max_staleness=-1": "must be at least 0, or null for any",
    },
    "clock=virtual": {
        "clock.seconds_per_image=-1": "must be at least 0",
        "clock.step_cost=0": "must be above 0",
        "clock.speed_sigma=11": "must be from 0 to 10",
        "clock.megabits=0": "must be above 0",
        "clock.bandwidth_sigma=-1": "must be from 0 to 10",
        "clock.variation=-1": "must be from 0 to 10",
        "clock.available_hours=25": "must be above 0 and at most 24",
        "clock.available_spread=-1": "must be at least 0",
        "clock.dropout=1": "must be from 0 to below 1",
    },
    "clock=virtual participation=deadline": {
        "participation.over_selection=0.5": "must be at least 1",
        "participation.deadline=0": "must be above 0",
    },
    "clock=virtual participation=tiers": {"participation.tiers=0": "must be at least 1"},
    "strategy=krum": {"strategy.num_malicious=-1": "must be at least 0"},
    "strategy=multikrum": {
        "strategy.selected=0": "must be at least 1, or null for all but num_malicious"
    },
    "strategy=fedadam": {
        "strategy.server_lr=0": "must be above 0",
        "strategy.beta_1=1": "must be from 0 to below 1",
    },
    "strategy=fedavgm": {
        "strategy.server_lr=0": "must be above 0",
        "strategy.server_momentum=1": "must be from 0 to below 1",
    },
    "strategy=fedtrimmedavg": {"strategy.trimmed=0.5": "must be from 0 to below 0.5"},
    "guard=drop": {
        "guard.times_median=1": "must be above 1",
        "guard.most_images=0": "must be 1 or more",
    },
    "after=ccvr": {
        "after.samples=0": "must be at least 1",
        "after.epochs=0": "must be at least 1",
        "after.batch_size=0": "must be at least 1",
        "after.lr=0": "must be above 0",
        "after.momentum=1": "must be from 0 to below 1",
    },
    "after=feddf": {
        "after.steps=0": "must be at least 1",
        "after.batch_size=1": "must be at least 2",
        "after.lr=0": "must be above 0",
        "after.max_gradient_norm=0": "must be above 0",
    },
    "augmentation=crop_flip": {"augmentation.padding=-1": "must be at least 0"},
    "partition=dirichlet": {
        "partition.alpha=0": "must be above 0 and at most 1e+06",
        "partition.alpha=1e308": "must be above 0 and at most 1e+06",
    },
    "partition=natural": {"partition.size_alpha=0": "must be from 0.001 to 1000000, or null"},
    "partition=pathological": {"partition.classes_per_client=0": "must be at least 1"},
    "partition=power_law": {
        "partition.classes_per_client=0": "must be at least 1",
        "partition.sigma=-1": "must be from 0 to 10",
        "partition.sigma=11": "must be from 0 to 10",
    },
    "data=folder": {"data.test_share=1.5": "must be from 0 to 1"},
    "data=hub data.repo=a/b": {"data.test_share=-1": "must be from 0 to 1"},
    "model=cnn": {
        "model.features=0": "must be at least 1",
        "model.pan_frequency=0": "must be at least 1",
        "model.pan_amplitude=0": "must be above 0",
    },
    "method=fedalign model=resnet56": {
        "method.alignment_weight=-1": "must be at least 0",
        "method.width=0": "must be above 0 and at most 1",
        "method.power_iterations=0": "must be at least 1",
        "method.max_gradient_norm=0": "must be above 0",
    },
    "method=feddecorr": {"method.decorrelation_weight=-1": "must be at least 0"},
    "method=fedetf": {"method.first_scale=0": "must be above 0"},
    "method=fedexp": {"method.step_epsilon=0": "must be above 0"},
    "method=fedlc": {"method.calibration_weight=-1": "must be at least 0"},
    "method=fedlesam": {"method.radius=-1": "must be at least 0"},
    "method=fedntd": {
        "method.distillation_weight=-1": "must be at least 0",
        "method.temperature=0": "must be above 0",
    },
    "method=fedrcl": {
        "method.contrast_weight=-1": "must be at least 0",
        "method.penalty_weight=-1": "must be at least 0",
        "method.contrast_temperature=0": "must be above 0",
        "method.penalty_threshold=2": "must be from -1 to 1",
        "method.hardest_negatives=0": "must be at least 1",
    },
    "method=fedbn": {"method.statistics=old": "must be 'trained' or 'measured'"},
    "method=fedrep": {"method.body_epochs=0": "must be at least 1"},
    "method=fedrs": {"method.missing_scale=1.5": "must be from 0 to 1"},
    "method=fedsol": {
        "method.radius=-1": "must be at least 0",
        "method.temperature=0": "must be above 0",
    },
    "method=fedvls": {
        "method.calibration_weight=-1": "must be at least 0",
        "method.distillation_weight=-1": "must be at least 0",
        "method.suppression_weight=-1": "must be at least 0",
    },
    "method=feddyn": {"method.dynamic_weight=-1": "must be at least 0"},
    "method=fedprox": {"method.proximal_weight=-1": "must be at least 0"},
    "method=feduv": {
        "method.uniformity_weight=-1": "must be at least 0",
        "method.deviation_weight=-1": "must be at least 0, or null for classes / 4",
    },
    "method=gradaug model=resnet56": {
        "method.distillation_weight=-1": "must be at least 0",
        "method.subnetworks=0": "must be at least 1",
        "method.least_width=2": "must be above 0 and at most 1",
    },
    "method=mixup": {
        "method.mixing_concentration=-1": "must be at least 0.01, or 0 for FedAvg",
        "method.mixing_concentration=0.001": "must be at least 0.01, or 0 for FedAvg",
    },
    "method=moon": {"method.contrastive_weight=-1": "must be at least 0"},
    "method=stochdepth model=resnet56": {"method.keep_rate=0": "must be above 0 and at most 1"},
    "method=univarfl": {"method.variance_weight=-1": "must be at least 0, or null for classes / 4"},
}


@pytest.mark.parametrize(
    ("component", "word", "allowed"),
    [(of, word, said) for of, words in SETTINGS.items() for word, said in words.items()],
)
def test_it_is_refused(component: str, word: str, allowed: str) -> None:
    key, _, _ = word.partition("=")
    with pytest.raises(ConfigError) as caught:
        compose_experiment([*component.split(), word])
    assert caught.value.key == key
    assert caught.value.allowed == allowed
