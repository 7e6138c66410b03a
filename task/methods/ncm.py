"""NCM: each class is represented by the mean direction of its features, in a frozen network.

Each client sends b_k = Z^T Y, with its features Z [n, d], one row for each training image,
normalised to length 1, and its labels Y [n, D], one-hot. The server adds them up, and normalises
the columns to length 1. These are the directions of the class means.
Paper: Legate, Bernier, Caccia, Oyallon, Belilovsky, "Guiding The Last Layer in Federated Learning
with Pre-Trained Models" (FedNCM), NeurIPS 2023. We have not read it, and no release was compared.
Hooks: none; nothing is trained. Client state: none. Upload: d D numbers of 64 bits, once.

Our choices:

* Features are normalised before they are added up. Counts of classes are not sent: the length of a
  sum does not change its direction.
* Rounding, eval mode, the bias and absent classes are those of ``method=ridge``.
"""

from dataclasses import dataclass

from task.methods.families.closed_form import ClosedForm


@dataclass
class Ncm(ClosedForm):
    """Nearest class mean; no settings."""
