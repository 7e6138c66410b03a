"""Ridge: the classifier is solved by ridge regression on the features of a frozen network.

Each client sends A_k = Z^T Z and b_k = Z^T Y, with its features Z [n, d], one row for each training
image, normalised to length 1, and its labels Y [n, D], one-hot. The server adds them up, solves
(A + lambda I) W = b once in float64, and normalises the columns of W to length 1.
Paper: Fani, Camoriano, Caputo, Ciccone, "Accelerating Heterogeneous Federated Learning with
Closed-form Classifiers" (Fed3R), ICML 2024, arXiv 2406.01116. The same solution in one round is the
idea of AFL (analytic federated learning), CVPR 2025. We have not read the papers: the equations
are from a summary of the first, and no release was compared.
Hooks: none; nothing is trained. Client state: none.
Upload: d (d + 1) / 2 + d D numbers of 64 bits, once.

Our choices:

* Features are rounded to whole multiples of 2^-20 before they are multiplied. So the sums are exact
  integers: the model has the same bits for every split of the same images, and every order.
* The network is in eval mode. Images are not augmented.
* The penalty is lambda itself, and not divided by the number of images.
* The bias is 0. A class without images has the weight 0; events.csv names it.
* Networks use features of any length, which changes probabilities and not the predicted class.
"""

from dataclasses import dataclass
from typing import ClassVar

from task.errors import refuse
from task.methods.families.closed_form import ClosedForm


@dataclass
class Ridge(ClosedForm):
    """Ridge regression on features.

    Attributes:
        penalty: lambda, above 0.
    """

    needs_products: ClassVar = True

    penalty: float

    def __post_init__(self) -> None:
        if self.penalty <= 0:
            refuse(self, "penalty", "must be above 0")
