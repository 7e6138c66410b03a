"""FedBuff: asynchronous rounds with a buffer (Nguyen et al., AISTATS 2022).

A server step adds the discounted mean of the buffer's K updates to the global weights:

    w <- w + server_lr * (1/K) * sum_i s(t_i) * (w_i - w_start_i),    s(t) = (1 + t)^(-exponent)

w_start_i are the weights that client i started from, and t_i is the number of server steps since.
Batch-norm statistics are treated like weights.

FLSim, the authors' program, does not divide by K, and weighs by images; ``server_lr`` and
``weighting`` do the same. With ``buffer_size=1`` every update is a server step of its own, as in
FedAsync (Xie et al., 2019), which moves the global weights to w_i and not by w_i - w_start_i.
"""

from dataclasses import dataclass

from server_app.aggregation.strategies.families.buffered import BufferedSettings
from task.errors import refuse


@dataclass
class FedBuffSettings(BufferedSettings):
    """Settings of FedBuff.

    Attributes:
        server_lr: the server's learning rate, above 0.
        staleness_exponent: exponent of the discount of late updates; 0 for none.
    """

    server_lr: float
    staleness_exponent: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.server_lr <= 0:
            refuse(self, "server_lr", "must be above 0")
        if self.staleness_exponent < 0:
            refuse(self, "staleness_exponent", "must be at least 0")

    def step(self, staleness: int) -> float:
        return self.server_lr * float((1 + staleness) ** -self.staleness_exponent)
