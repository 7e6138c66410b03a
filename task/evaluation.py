"""Scores of one model on sets of images."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own abbreviation)
from torch import Tensor, nn

from task.data.batches import DeviceImages

BATCH_PIXELS = 512 * 32 * 32  # a batch takes the same memory whatever the size of its images


@dataclass(frozen=True)
class Score:
    """Sums over one set of images, so that scores of several sets add up.

    Attributes:
        examples: how many images.
        correct: how many of them the model classifies rightly.
        loss: the summed cross-entropy.
    """

    examples: int
    correct: int
    loss: float

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.examples + other.examples, self.correct + other.correct, self.loss + other.loss
        )

    def means(self) -> dict[str, float]:
        """Accuracy in [0, 1] and the mean loss; empty for no images."""
        if not self.examples:
            return {}
        return {"accuracy": self.correct / self.examples, "loss": self.loss / self.examples}


@torch.inference_mode()
def evaluate(model: nn.Module, images: DeviceImages, sets: Sequence[Tensor]) -> list[Score]:
    """Score `model` on each set of positions, all sets in common batches."""
    model.eval()
    losses, hits = [torch.empty(0)], [torch.empty(0, dtype=torch.bool)]
    positions = torch.cat(list(sets))
    for batch in positions.split(images.at_once(BATCH_PIXELS)) if len(positions) else ():
        x, y = images[batch]
        logits = model(x).logits.float()
        losses.append(F.cross_entropy(logits, y, reduction="none").cpu())
        hits.append((logits.argmax(dim=1) == y).cpu())
    sizes = [len(positions) for positions in sets]
    parts = zip(torch.cat(losses).split(sizes), torch.cat(hits).split(sizes), strict=True)
    return [Score(len(loss), int(hit.sum()), float(loss.double().sum())) for loss, hit in parts]
