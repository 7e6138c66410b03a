"""The studies of ``docs/results/``: their sweeps, and the tables made from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from statistics import mean

import pandas as pd

from benchmarks.time_to_accuracy import by_pace
from benchmarks.update_formats import by_format
from server_app.config.composition import compose_experiment, compose_settings
from server_app.config.override_text import flat
from server_app.config.tables import Table
from server_app.runs.records.client_scores import ClientScore
from univarfl.records.labels import label_of
from univarfl.records.published import accuracy_of, published_numbers
from univarfl.records.reader import Run
from univarfl.records.scores import read_client_scores
from univarfl.report.after_training import after_training_table
from univarfl.report.breakdown.by_client import ByClient
from univarfl.report.statistics import difference, mean_and_sd
from univarfl.report.summary import Summary

CHOSEN = (
    "method.",
    "batch_size",
    "strategy.",
    "optim.",
    "model.norm",
)  # the keys that studies of defaults vary
SIX = "method=fedavg,fedprox,moon,freeze,feduv,univarfl"
PACS = "experiment=pacs data.image_size=32 batch_size=32"
PRETRAINED = (
    "data=pacs data.image_size=96 augmentation=none tune=head model=timm "
    "model.architecture=tf_efficientnet_lite0 model.weights=${oc.env:LITE0}"
)
TABLES = (  # of `benchmarks.tables`, and how their rows are divided
    "breast_cancer alpha=0.1 num_clients=5",
    "gbsg2 alpha=0.1 num_clients=5",
    "lung partition=natural num_clients=9 partition.min_images=5",
)
SHORT_PACS = f"{PACS} rounds=15 local_epochs=4"
STATISTICS_PACS = f"{PACS} rounds=16 local_epochs=2 optim.schedule=cosine"
STATISTICS_DIGITS = (
    "rounds=20 local_epochs=2 alpha=0.05 method=fedavg,univarfl optim.schedule=constant,cosine "
    "model.statistics=averaged,moments"
)
LONG_PACS = f"{PACS} rounds=60 local_epochs=2"
SMALL_PACS = f"{LONG_PACS} watch.models_every=10"
DOMAINS = f"{PACS} rounds=15 local_epochs=2"
PACS64 = "experiment=pacs data.image_size=64 batch_size=32 rounds=60 local_epochs=2"
POOLED_PACS = f"{PACS} partition=dirichlet num_clients=10 rounds=20 local_epochs=2"
SMALL_DIGITS = "rounds=20 local_epochs=2"
SKEWED = "alpha=0.05 rounds=12 seed=0,1,2,3,4,5,6,7,8,9"
PARTS = (
    "method=univarfl method.energy_weight=0",
    "method=univarfl method.variance_weight=0",
)
MANY = "num_clients=50 partition=iid rounds=15 local_epochs=2"
NOISE = "strategy=dp_fixed strategy.noise_multiplier=0,0.1,0.3,1"
OTHER_TEN = "seed=3,4,5,6,7,8,9,10,11,12"
OTHER_SEEDS, GROUP_NORM = "seed=10,11", "model.norm=group"
CLIPPED = "method=univarfl method.energy_eps=1e-3 optim.max_gradient_norm=10"
WEIGHED = f"{SMALL_DIGITS} alpha=0.05 seed=10,11,12,13,14,15"
WEIGHTS = "method=univarfl method.variance_weight=2.5,10"
PAPERS_WEIGHT = "UniVarFL (variance_weight=2.5)"
EPSILONS = f"{SMALL_DIGITS} {OTHER_SEEDS} method=univarfl method.energy_eps=1e-3,0.03,0.1,0.3,1"
SHORTER = "rounds=24 local_epochs=5 batch_size=64"
PHOTOS = "data=folder data.image_size=64 partition=dirichlet alpha=0.01"
TIN10 = f"{PHOTOS} rounds=60 local_epochs=10 batch_size=128 rho=0.1 optim.schedule=cosine,constant"
NIID = "experiment=niid_bench method=fedavg,scaffold,fedprox rounds=20"
NIID_FEW = (
    "experiment=niid_bench seed=0 partition=pathological partition.deal=random "
    "partition.classes_per_client"
)
VACANT = "experiment=fedvls_mnist alpha=0.05 rounds=20"
COMPARED = (
    "method=fedavg",
    "method=fedexp method.step_epsilon=0.01",
    "method=fedlc method.calibration_weight=0.5",
    "method=fedrs method.missing_scale=0.7",
    "method=fedntd method.distillation_weight=0.1",
    "method=fedvls",
)
MIXED = "partition=dirichlet alpha=0.5"
LABELS = "partition=pathological partition.deal=random partition.classes_per_client=1,2,3"
CHANCE = "alpha=0.01 rounds=20 local_epochs=2"
CAUSES = (
    "alpha", "rounds", "local_epochs", "batch_size", "optim.lr", "optim.momentum", "model.norm",
    "model.name", "method.energy_eps",
)  # fmt: skip
UNCHANGED = "no change"
CHANCE_SEEDS = "rho=0.1,1.0 seed=0,1,2"
STAGES = "after=ccvr,feddf"
FIVE_SEEDS = "seed=0,1,2,3,4"
HEAVY = "num_clients=50 local_epochs=2 clock=virtual clock.speed_sigma=1.5 clock.dropout=0.05"
TENTHS = f"{HEAVY} rho=0.2 method=fedavg,univarfl {FIVE_SEEDS}"
MANY_AT_A_TIME = f"{HEAVY} rho=0.4 method=fedavg seed=0,1,2"
BUFFERS = {1: "rounds=600 evaluate_every=5", 5: "rounds=120", 10: "rounds=60", 20: "rounds=30"}
FORMATS = (
    "model=lenet data.image_size=16 alpha=0.1 rounds=40 local_epochs=2 "
    "method=fedavg,univarfl seed=75,76,77,78,79"
)
FEEDBACK = "update.error_feedback=true,false"
SMALL_RESNET = "model=resnet56 data.image_size=8 alpha=0.1 rounds=12"


def accuracies(summary: Summary) -> list[pd.DataFrame]:
    """Return each method's accuracy, and its differences from FedAvg's on the same seeds."""
    settings = {setting for setting, _ in summary.counted}
    first = summary.glance() if len(settings) > 1 else summary.accuracies()
    return [first, summary.differences()]


def by_weight(summary: Summary) -> list[pd.DataFrame]:
    """Return validation accuracies by weight, and differences from the paper's weight."""
    judged = Summary([without_test(run) for run in summary.runs])
    return [judged.accuracies(), judged.differences(PAPERS_WEIGHT)]


def without_test(run: Run) -> Run:
    """Return the run without its test scores, so that validation decides."""
    kept = {key: values for key, values in run.series.items() if key[0] != "test"}
    return replace(run, series=kept)


def by_validation(summary: Summary) -> list[pd.DataFrame]:
    """Return the validation accuracy in % after the last round, by which settings are chosen."""
    rows = []
    usual = flat(compose_experiment([]).model_dump())
    for runs in summary.counted.values():
        changed = [
            f"{key}={value}"
            for key, value in flat(runs[0].config).items()
            if key.startswith(CHOSEN) and value != usual.get(key)
        ]
        found = [run.series["validation", "accuracy"][run.record.last_round] for run in runs]
        mean = mean_and_sd(100 * pd.Series(found))
        rows.append({"setting": ", ".join(changed) or "the defaults", "validation": mean})
    return [pd.DataFrame(rows).sort_values("setting", kind="stable")]


def by_noise(summary: Summary) -> list[pd.DataFrame]:
    """Return accuracies in % by noise multiplier, with the epsilon of each."""
    rows: dict[float, dict[str, str]] = {}
    for (_, method), runs in summary.counted.items():
        noise = runs[0].config["strategy"]["noise_multiplier"]
        privacy = runs[0].record.privacy
        assert privacy  # its strategy adds noise
        epsilon = str(privacy.epsilon) if privacy.why else f"{privacy.epsilon:.1f}"
        row = rows.setdefault(noise, {"noise multiplier": f"{noise:g}", "epsilon": epsilon})
        row[method] = mean_and_sd(100 * pd.Series(list(map(accuracy_after, runs))))
    return [pd.DataFrame([rows[noise] for noise in sorted(rows)])]


def by_cause(summary: Summary) -> list[pd.DataFrame]:
    """Return three tables by what differs from the settings of `CHANCE`.

    They have test accuracies in %, UniVarFL's minus FedAvg's of the same seeds, and how many
    classes the models give. A model gives a class if it recognises at least one test image of it.
    Steps are those of a participant in a round.
    """
    usual = flat(compose_experiment(CHANCE.split()).model_dump())
    accuracies: dict[str, dict[str, object]] = {}
    given: dict[str, dict[str, object]] = {}
    found: dict[tuple[str, str], dict[str, pd.Series[float]]] = {}
    for runs in summary.counted.values():
        config = flat(runs[0].config)
        changed = [
            f"{key}={config[key]}" for key in CAUSES if config.get(key, usual[key]) != usual[key]
        ]
        name = ", ".join(changed) or UNCHANGED
        head: dict[str, object] = {"setting": name, "steps": steps_a_round(runs[0])}
        method, rho = label_of("method", config["method.name"]), f"rho {config['rho']:g}"
        values = pd.Series({run.config["seed"]: 100 * accuracy_after(run) for run in runs})
        found.setdefault((name, rho), {})[method] = values
        accuracies.setdefault(name, {**head})[f"{method}, {rho}"] = mean_and_sd(values)
        counts = [sum(recall > 0 for _, recall in run.recall.values()) for run in runs]
        given.setdefault(name, {**head})[f"{method}, {rho}"] = f"{mean(counts):.1f}"
    minus: dict[str, dict[str, object]] = {}
    for (name, rho), by in found.items():
        if len(by) > 1:
            row = minus.setdefault(name, {"setting": name})
            row[f"UniVarFL minus FedAvg, {rho}"] = difference(by["UniVarFL"] - by["FedAvg"], "+.1f")
    tables = [sorted(of.values(), key=is_changed) for of in (accuracies, minus, given)]
    return [pd.DataFrame(rows).fillna("") for rows in tables]


def is_changed(row: Mapping[str, object]) -> bool:
    """Return whether a row of `by_cause` is not that of the unchanged settings."""
    return row["setting"] != UNCHANGED


def steps_a_round(run: Run) -> int:
    """Return how many steps a participant takes in a round, as a mean over all clients."""
    share, size = 1 - run.config["data"]["validation_share"], run.config["batch_size"]
    assert isinstance(run.data.clients, list)  # there are few
    batches = [max(1, round(share * images / size)) for images in run.data.clients]
    steps: float = run.config["local_epochs"] * mean(batches)
    return round(steps)


def by_value(group: str, key: str, first: str, second: str, summary: Summary) -> list[pd.DataFrame]:
    """Return the test accuracy in % of each method with two values of a setting, and the second's
    minus the first's of the same seeds.
    """
    found: dict[str, dict[str, pd.Series[float]]] = {}
    for (_, method), runs in summary.counted.items():
        values = {run.config["seed"]: 100 * accuracy_after(run) for run in runs}
        found.setdefault(method, {})[runs[0].config[group][key]] = pd.Series(values)
    rows = []
    for method, by in found.items():
        row = {"method": method} | {name: mean_and_sd(values) for name, values in by.items()}
        minus = difference(by[second] - by[first], "+.1f")
        rows.append(row | {f"{second} minus {first}": minus})
    return [pd.DataFrame(rows)]


def by_schedule(summary: Summary) -> list[pd.DataFrame]:
    """Return what the cosine schedule changes, and each method's differences from FedAvg."""
    return [
        *by_value("optim", "schedule", "constant", "cosine", summary),
        summary.differences(),
    ]


def accuracy_after(run: Run) -> float:
    """Return the test accuracy after the last round."""
    return run.record.results.test["accuracy"]


def four_readings(summary: Summary) -> list[pd.DataFrame]:
    """Return accuracies as `accuracies` does, and the best of any round by the test set itself.

    The last is no result, as the test set chose the round. Papers do not say which they report.
    """
    table = summary.accuracies()
    table["best by test"] = [
        mean_and_sd(100 * pd.Series([max(run.series["test", "accuracy"].values()) for run in runs]))
        for runs in summary.counted.values()
    ]
    return [table, summary.differences()]


def beside_published(experiment: str, summary: Summary) -> list[pd.DataFrame]:
    """Return `four_readings`, with the published accuracy after more rounds beside them.

    Args:
        experiment: the file of ``conf/experiment`` with the published numbers and their rounds.
        summary: the study's runs.
    """
    table, differences = four_readings(summary)
    settings = compose_settings([f"experiment={experiment}"])
    rounds, published = settings["rounds"], [Table(**each) for each in settings["published"]]
    column = []
    for runs in summary.counted.values():
        found = published_numbers({**runs[0].config, "rounds": rounds}, published)
        column.append(", ".join(accuracy_of(cell) for _, cell in found))
    table[f"published, {rounds} rounds"] = column
    return [table, differences]


def after_training(summary: Summary) -> list[pd.DataFrame]:
    """Return the test accuracy in % before and after the stage that followed the last round."""
    return [after_training_table(summary)]


def at_clients(summary: Summary) -> list[pd.DataFrame]:
    """Return how accuracy is spread over the clients, and the accuracy at each of them in %."""
    rows = []
    for (_, method), runs in summary.counted.items():
        scores = [read_client_scores(run.directory) for run in runs]
        by_client: dict[str, list[float]] = {}
        for score in chain.from_iterable(scores):
            by_client.setdefault(name_of_client(runs[0], score), []).append(100 * score.accuracy)
        each = {name: mean_and_sd(pd.Series(values)) for name, values in by_client.items()}
        rows.append({"method": method, **each})
    return [ByClient(summary).table(), pd.DataFrame(rows)]


def name_of_client(run: Run, score: ClientScore) -> str:
    """Return the domain of a client's images if each client has one, else its number."""
    domains = run.data.domains
    alone = (
        run.config["partition"]["name"] == "domains" and len(domains) == run.config["num_clients"]
    )
    return str(domains[score.client]) if alone else f"client {score.client}"


@dataclass(frozen=True)
class Study:
    """Runs that are reported together.

    Attributes:
        sweeps: the overrides of each sweep.
        measures: the measures of ``univarfl analyse``.
        needs: the environment variable with the data set's directory, if one is needed.
        beside: studies whose runs of the same methods are in tables and pictures as well.
        tables: makes the tables.
        pictures: the pictures of a report that are kept, by the starts of their names.
        keeps_clients: whether the tables need ``clients.csv``.
    """

    sweeps: tuple[str, ...]
    measures: tuple[str, ...] = ()
    needs: str = ""
    beside: tuple[str, ...] = ()
    tables: Callable[[Summary], list[pd.DataFrame]] = accuracies
    pictures: tuple[str, ...] = ()
    keeps_clients: bool = False


STUDIES = {  # with the time of each on two cores
    # Three hours on two cores.
    "pacs": Study(
        (
            f"{SMALL_PACS} {SIX} seed=0,1,2",
            f"{SMALL_PACS} method=fedavg,univarfl seed=3,4,5,6,7,8,9",
        ),
        ("singular_values", "spread", "drift", "features", "cost"),
        needs="PACS",
        pictures=(
            "accuracy",
            "spread-feature-uniformity-clients",
            "spread-probability-variance-clients",
            "drift-cosine",
            "features-by-domain-fedavg",
            "features-by-domain-univarfl",
        ),
    ),
    # Three quarters of an hour.
    "pacs-short": Study((f"{SHORT_PACS} {SIX} seed=0,1,2",), needs="PACS"),
    # Two hours.
    "pacs-labels": Study(
        (
            f"{POOLED_PACS} alpha=0.01,1.0 rho=0.1,0.5,1.0 {SIX} seed=0,1,2",
            f"{POOLED_PACS} alpha=1.0 rho=0.1 method=fedavg,univarfl,feduv seed=3,4,5,6,7,8,9",
        ),
        needs="PACS",
    ),
    # Half an hour.
    "labels": Study(
        (f"{SMALL_DIGITS} alpha=0.01,1.0 rho=0.1,0.5,1.0 {SIX} watch.models_every=5 seed=0,1,2",),
        ("singular_values",),
    ),
    # Half an hour.
    "seeds": Study(
        (f"{SKEWED} {SIX},scaffold", *(f"{SKEWED} {part}" for part in PARTS)),
        pictures=("accuracy",),
    ),
    # A minute.
    "iid": Study(
        (f"{SMALL_DIGITS} partition=iid method=fedavg,univarfl watch.models_every=5 seed=0,1,2",),
        ("singular_values",),
    ),
    # Ten minutes.
    "curvature": Study(
        (f"{SMALL_RESNET} method=fedavg,fedprox,moon,univarfl,fedalign seed=0",),
        ("curvature", "cost"),
    ),
    # A day.
    "tin10": Study(
        (
            f"{TIN10} method=fedavg,univarfl seed=0,1,2,3,4",
            f"{TIN10} method=fedprox,moon,freeze,feduv,scaffold seed=0,1,2",
        ),
        needs="TIN10",
        tables=four_readings,
        pictures=("accuracy",),
    ),
    # Four hours.
    "tin10-participation": Study(
        (
            f"{PHOTOS} {SHORTER} rho=1.0 method=fedavg,univarfl,scaffold seed=0,1,2",
            f"{PHOTOS} {SHORTER} rho=0.5 method=fedavg,univarfl,scaffold seed=0,1,2",
        ),
        needs="TIN10",
        tables=four_readings,
        pictures=("accuracy",),
    ),
    # A quarter of an hour.
    "after": Study(
        (f"{SMALL_DIGITS} alpha=0.05 method=fedavg,univarfl {STAGES} {FIVE_SEEDS}",),
        tables=after_training,
    ),
    # An hour and a half. Compared: UniVarFL minus FedAvg, paired by seed, after the last round,
    # with averaged statistics of batch norm and with those of all images.
    "statistics-pacs": Study(
        tuple(f"{STATISTICS_PACS} method=fedavg,univarfl seed={seed}" for seed in range(20, 30)),
        needs="PACS",
        tables=four_readings,
    ),
    # Three quarters of an hour. Compared: averaged moments minus averaged statistics, paired by
    # seed, after the last round, for each of two methods and two schedules.
    "statistics-digits": Study(
        tuple(f"{STATISTICS_DIGITS} seed={seed}" for seed in range(20, 25)), tables=four_readings
    ),
    # Half an hour, with the file of weights LITE0. Compared: each method minus FedAvg, paired by
    # seed, after the last round, by domain and at alpha 0.01. Nothing is tuned.
    "pretrained": Study(
        tuple(
            f"{PRETRAINED} partition={split} {methods} seed=40,41,42"
            for split in ("domains num_clients=4", "dirichlet alpha=0.01 num_clients=10")
            for methods in (
                "method=fedavg,fedprox,univarfl,scaffold rounds=30 local_epochs=2",
                "method=ridge,ncm",
            )
        ),
        needs="PACS",
    ),
    # Five minutes, with the tables of `benchmarks.tables` in the directory TABLES. Compared: each
    # method minus FedAvg, paired by seed, after the last round. Nothing is tuned. Before these runs
    # energy_eps=0.3 was the default, with which L_HE has most of the first gradient.
    "tables": Study(
        tuple(
            f"data=vectors data.root=${{oc.env:TABLES}}/{table} {methods} seed=50,51,52,53,54"
            for table in TABLES
            for methods in (
                "method=fedavg,scaffold,univarfl",
                "method=univarfl method.energy_eps=0.3",
            )
        ),
    ),
    # Ten minutes. Compared: each format minus float32, paired by seed, after the last round and
    # over the last five, for each of two methods. Nothing is tuned.
    "update-formats": Study(
        (f"{FORMATS} update=float32", f"{FORMATS} update=bfloat16,int8 {FEEDBACK}"),
        tables=by_format,
    ),
    # Twenty minutes.
    "pace": Study(
        (
            f"{TENTHS} rounds=60 participation=uniform,deadline",
            f"{TENTHS} rounds=120 strategy=fedbuff",
        ),
        tables=by_pace,
        keeps_clients=True,
    ),
    # A quarter of an hour.
    "buffer": Study(
        (
            f"{MANY_AT_A_TIME} rounds=30",
            *(
                f"{MANY_AT_A_TIME} {words} strategy=fedbuff strategy.buffer_size={size}"
                for size, words in BUFFERS.items()
            ),
        ),
        tables=by_pace,
        keeps_clients=True,
    ),
    # An hour.
    "clients": Study(
        (
            f"{DOMAINS} method=fedavg,univarfl,fedper,fedrep seed=0,1,2",
            f"{DOMAINS} method=fedbn method.statistics=trained,measured seed=0,1,2",
        ),
        needs="PACS",
        tables=at_clients,
        pictures=("clients",),
    ),
    # Ten minutes on an H200, eight hours on two cores.
    "pacs-96": Study(
        ("experiment=pacs method=fedavg,univarfl seed=0",),
        needs="PACS",
        tables=four_readings,
        pictures=("accuracy",),
    ),
    # Half an hour.
    "pacs-cosine": Study(
        (f"{LONG_PACS} optim.schedule=cosine method=fedavg,univarfl seed=0,1,2",),
        needs="PACS",
        beside=("pacs",),
        tables=by_schedule,
        pictures=("accuracy",),
    ),
    # Two hours.
    "pacs-64": Study(
        tuple(f"{PACS64} method=fedavg,univarfl seed={seed}" for seed in range(3)),
        needs="PACS",
        beside=("pacs",),
        tables=four_readings,
        pictures=("accuracy",),
    ),
    # Two hours for each seed.
    "niid_bench": Study(
        tuple(f"{NIID} {split} seed={seed}" for seed in range(3) for split in (MIXED, LABELS)),
        needs="MNIST",
        tables=partial(beside_published, "niid_bench"),
        pictures=("accuracy",),
    ),
    # Four hours.
    "niid_bench-causes": Study(
        (
            f"{NIID_FEW}=2 method=fedavg rounds=50",
            f"{NIID_FEW}=1 method=fedprox rounds=20 method.proximal_weight=1",
            f"{NIID_FEW}=2 method=fedprox rounds=50 method.proximal_weight=0.001",
            f"{NIID_FEW}=1 method=fedprox rounds=50",
            f"{NIID_FEW}=3 method=fedprox rounds=20 method.proximal_weight=0.001",
            f"{NIID_FEW}=3 method=fedprox rounds=50 method.proximal_weight=0.001",
            "experiment=niid_bench seed=0 alpha=0.5 method=fedprox rounds=50",
        ),
        needs="MNIST",
        tables=partial(beside_published, "niid_bench"),
    ),
    # Three hours.
    "fedvls-mnist": Study(
        tuple(f"{VACANT} {method} seed={seed}" for seed in range(3) for method in COMPARED),
        needs="MNIST",
        tables=partial(beside_published, "fedvls_mnist"),
        pictures=("accuracy",),
    ),
    # Ten minutes.
    "precision": Study(
        (f"method=fedavg,univarfl runtime.precision=float32,bfloat16 {FIVE_SEEDS}",),
        tables=partial(by_value, "runtime", "precision", "float32", "bfloat16"),
    ),
    # Half an hour.
    "chance": Study(
        (
            f"{CHANCE} method=univarfl {CHANCE_SEEDS} method.energy_eps=0.1",
            *(
                f"{CHANCE} method=fedavg,univarfl {CHANCE_SEEDS} {one}"
                for one in (
                    "alpha=0.01,0.1",
                    "model.norm=group",
                    "batch_size=8",
                    "local_epochs=1",
                    "local_epochs=10",
                    "optim.lr=0.001",
                    "optim.momentum=0",
                    "model=lenet",
                    "rounds=100",
                )
            ),
        ),
        tables=by_cause,
    ),
    # Half an hour. The seeds of "chance" found the effect, so these are others.
    "long-local": Study(
        (f"alpha=0.01 rounds=20 local_epochs=2,10 rho=1.0 {OTHER_TEN} method=fedavg,univarfl",),
    ),
    # A quarter of an hour.
    "sensitivity": Study(
        tuple(
            f"{SMALL_DIGITS} {OTHER_SEEDS} method=univarfl alpha=0.05 {one}"
            for one in (
                "method.energy_eps=1e-4,1e-3,1e-2,1e-1,1",
                "method.energy_weight=0.1,2",
                "method.variance_weight=0.5,10",
                "batch_size=16,64",
                "strategy.weighting=uniform",
            )
        ),
        tables=by_validation,
    ),
    # A quarter of an hour.
    "variance-weight": Study(
        (f"{WEIGHED} method=fedavg", f"{WEIGHED} {WEIGHTS}"),
        tables=by_weight,
    ),
    # A quarter of an hour.
    "group": Study(
        (
            f"{GROUP_NORM} {SMALL_DIGITS} {OTHER_SEEDS} method=fedavg",
            f"{GROUP_NORM} {EPSILONS}",
            f"{GROUP_NORM} {SMALL_DIGITS} {OTHER_SEEDS} {CLIPPED}",
            f"{SMALL_DIGITS} {OTHER_SEEDS} method=fedavg,univarfl",
        ),
        tables=by_validation,
    ),
    # Ten minutes.
    "privacy": Study(
        (f"{GROUP_NORM} {MANY} method=fedavg,univarfl {NOISE} seed=0,1,2",),
        tables=by_noise,
    ),
}
