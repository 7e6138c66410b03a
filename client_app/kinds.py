"""The kinds of messages that a worker answers, and what answers each.

The table is fixed here: a name in a message never chooses code. A module is imported with the first
message that needs it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Handler:
    """What answers the messages of one kind.

    Attributes:
        kind: the `task.protocol.envelope.Kind`, as ``module:NAME``.
        work: a function from a `client_app.session.Session` to the reply, as ``module:function``.
        in_time: whether this process ends if it takes too long.
    """

    kind: str
    work: str
    in_time: bool = False


HANDLERS = {  # by Flower's message type
    "query": Handler("task.protocol.registration:REGISTER", "client_app.registration:register"),
    "train": Handler(
        "task.protocol.training:TRAIN", "client_app.work_unit:train_clients", in_time=True
    ),
    "evaluate": Handler(
        "task.protocol.evaluation:EVALUATE", "client_app.work_unit:evaluate_clients", in_time=True
    ),
    "query.columns": Handler(
        "task.protocol.columns:COLUMNS", "client_app.columns:sums_of_clients", in_time=True
    ),
    "query.forget": Handler("task.protocol.registration:FORGET", "client_app.forgetting:forget"),
    # Stages after training.
    "query.personal": Handler(
        "task.protocol.after.personal:PERSONAL",
        "client_app.after.personal:parts_of_clients",
        in_time=True,
    ),
    "query.statistics": Handler(
        "task.protocol.after.statistics:STATISTICS",
        "client_app.after.statistics:statistics_of_clients",
        in_time=True,
    ),
    "query.moments": Handler(
        "task.protocol.after.moments:MOMENTS",
        "client_app.after.moments:moments_of_clients",
        in_time=True,
    ),
    "query.sums": Handler(
        "task.protocol.after.sums:FEATURE_SUMS",
        "client_app.after.sums:sums_of_clients",
        in_time=True,
    ),
    "train.finetune": Handler(
        "task.protocol.after.finetuning:FINETUNE",
        "client_app.after.finetuning:finetune_clients",
        in_time=True,
    ),
    # The stages of a masked round, in their order.
    "query.keys": Handler("task.protocol.masking.messages:KEYS", "client_app.masked.stages:keys"),
    "query.shares": Handler(
        "task.protocol.masking.messages:SHARES", "client_app.masked.stages:shares"
    ),
    "train.report": Handler(
        "task.protocol.masking.messages:REPORT", "client_app.masked.report:report", in_time=True
    ),
    "evaluate.score": Handler(
        "task.protocol.masking.messages:SCORE", "client_app.masked.report:score", in_time=True
    ),
    "query.measure": Handler(
        "task.protocol.masking.messages:MEASURE",
        "client_app.masked.measuring:measure",
        in_time=True,
    ),
    "query.features": Handler(
        "task.protocol.masking.messages:SUM_FEATURES",
        "client_app.masked.features:sum_features",
        in_time=True,
    ),
    "query.masked_columns": Handler(
        "task.protocol.masking.columns:MASKED_COLUMNS",
        "client_app.masked.columns:masked_sums",
        in_time=True,
    ),
    "query.agree": Handler(
        "task.protocol.masking.messages:AGREE", "client_app.masked.stages:agree"
    ),
    "query.unmask": Handler(
        "task.protocol.masking.messages:UNMASK", "client_app.masked.stages:unmask"
    ),
}
