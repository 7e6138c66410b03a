"""Two clients with quadratic objectives and different optima: which method finds the joint one?

Client i minimises ``a_i / 2 * (w - b_i)^2`` by ten steps of plain gradient descent per round. With
a = (1, 3) and b = (0, 4), the optimum of the mean is (1 * 0 + 3 * 4) / (1 + 3) = 3. With a learning
rate of 0.1, client i moves by the share r_i = 1 - (1 - 0.1 a_i)^10 of the distance to b_i. So
FedAvg's fixed point is the mean of the b_i weighted by r_i: 0.972 * 4 / (0.651 + 0.972) = 2.395.
AdamW takes smaller steps, and 80 of them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from task.methods.base import Contribution, LocalRound, Method
from task.methods.fedavg import FedAvg
from task.methods.feddyn import FedDyn
from task.methods.scaffold import Scaffold
from task.tensors import Tensors

CURVATURE, OPTIMA = (1.0, 3.0), (0.0, 4.0)
RATE, STEPS = 0.1, 10

Sgd = partial(torch.optim.SGD, lr=RATE)
AdamW = partial(torch.optim.AdamW, lr=0.05, weight_decay=0)
Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class Point(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros((), dtype=torch.float64))


def local(
    method: Method, model: Point, client: int, this: LocalRound, optimizer: Optimizer
) -> Contribution:
    method.start(model, this)
    stepper = optimizer(model.parameters())
    for _ in range(STEPS if optimizer is Sgd else 8 * STEPS):
        stepper.zero_grad()
        (CURVATURE[client] / 2 * (model.w - OPTIMA[client]) ** 2).backward()
        method.gradients(model)
        stepper.step()
    outcome = method.finish(model)
    this.state.clear()  # type: ignore[attr-defined]
    this.state.update(outcome.state)  # type: ignore[attr-defined]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    return Contribution(0.5, weights, outcome.extra, 1.0)


def together(given: Sequence[Contribution], known: int, before: int) -> Contribution:
    """Return the contribution of clients with equal shares in the objective."""

    def mean(values: Sequence[Tensors]) -> dict[str, Tensor]:
        return {name: torch.stack([v[name] for v in values]).mean(dim=0) for name in values[0]}

    weights, extra = mean([c.weights for c in given]), mean([c.extra for c in given])
    return Contribution(len(given) / known, weights, extra, before / known)


def final(
    method: Method, rounds: int, absent: int = 0, late: int = 0, optimizer: Optimizer = Sgd
) -> float:
    """Return the final global w.

    Every `absent`-th round has only client 0, and client 1 joins in round `late`.
    """
    model = Point()
    weights: dict[str, Tensor] = {"w": torch.zeros((), dtype=torch.float64)}
    half = method.server(weights)
    states: list[dict[str, Tensor]] = [{}, {}]
    before = 0
    for server_round in range(1, rounds + 1):
        known = 1 if server_round <= late else 2
        everybody = [0] if absent and server_round % absent == 0 else [0, 1][:known]
        given = []
        for client in everybody:
            model.load_state_dict(weights)
            broadcast = half.broadcast() if half else {}
            this = LocalRound(
                server_round, client, torch.Generator(), torch.ones(2), states[client], broadcast
            )
            given.append(local(method, model, client, this, optimizer))
        everyone = together(given, known, before)
        before = known
        after = dict(everyone.weights)
        weights = half.update(weights, after, everyone) if half else after
    return weights["w"].item()


def test_fedavg_stops_where_the_clients_drift_balances() -> None:
    assert final(FedAvg(), 200) == pytest.approx(2.395, abs=1e-3)


@pytest.mark.parametrize("method", [Scaffold(), FedDyn(dynamic_weight=1.0)])
def test_scaffold_and_feddyn_reach_the_joint_optimum(method: Method) -> None:
    assert final(method, 200) == pytest.approx(3.0, abs=1e-3)


def test_with_adamw_feddyn_reaches_it_and_scaffold_which_is_refused_does_not() -> None:
    found = final(FedDyn(dynamic_weight=1.0), 10, optimizer=AdamW)
    assert found == pytest.approx(3.0, abs=1e-3)
    assert abs(final(Scaffold(), 10, optimizer=AdamW) - 3.0) > 0.1


def test_they_reach_it_when_a_client_is_absent_now_and_then() -> None:
    """FedDyn leaves the optimum in rounds with client 0 alone, and returns to it afterwards."""
    assert final(Scaffold(), 300, absent=7) == pytest.approx(3.0, abs=1e-2)
    assert final(FedDyn(dynamic_weight=1.0), 300, absent=7) == pytest.approx(3.0, abs=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Scaffold(), FedDyn(dynamic_weight=1.0)])
def test_they_reach_it_when_a_client_comes_late(method: Method) -> None:
    assert final(method, 300, late=3) == pytest.approx(3.0, abs=1e-2)
