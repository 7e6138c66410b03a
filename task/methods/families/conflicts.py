"""Which methods do not combine, and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields

from task.methods.base import Method

# What at most one method of a combination does, and what two different ones must not do.
ONE_AT_MOST = {
    "server_update": "corrects the server's weights",
    "sets_classifier": "sets the classifier",
    "perturbs": "perturbs the weights",
    "adjusts_logits": "changes the logits of the cross-entropy",
}
APART = (
    (("mixes_labels", "mixes labels"), ("needs_classes", "needs one class per image")),
    (
        ("personalises", "keeps a part of the model with the client"),
        ("server_update", "changes the whole model on the server"),
    ),
    (
        ("personalises", "keeps a part of the model with the client"),
        ("follows_global", "uses how the whole global model moved"),
    ),
    (
        ("adjusts_logits", "changes the logits of the cross-entropy"),
        ("uses_entropy", "weighs its term by the cross-entropy of the network's own logits"),
    ),
)


def conflict(kinds: Mapping[str, type[Method]]) -> str:
    """Return the reason why methods, given by name, do not combine; empty if they do."""
    if "fedavg" in kinds:
        return "every method extends fedavg already; leave it out"
    if untrained := [name for name, kind in kinds.items() if kind.closed_form]:
        return f"{untrained[0]} trains nothing; choose one of them"
    for flag, action in ONE_AT_MOST.items():
        if sum(getattr(kind, flag) for kind in kinds.values()) > 1:
            return f"more than one of them {action}; choose one"
    for (flag, action), (other, reason) in APART:
        one = next((name for name, kind in kinds.items() if getattr(kind, flag)), "")
        two = next((name for name, kind in kinds.items() if getattr(kind, other)), "")
        if one and two:
            return f"{one} {action}, and {two} {reason}; choose one"
    settings = [field.name for kind in kinds.values() for field in fields(kind)]
    terms = [term for kind in kinds.values() for term in kind.terms]
    for what, words in (("setting", settings), ("term", terms)):
        if shared := [word for word, count in Counter(words).items() if count > 1]:
            return f"they share the {what} {shared[0]}; choose one of them"
    return ""
