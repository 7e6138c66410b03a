"""A SuperNode per client; data set, loader, model and optimizer are made for each message."""

from functools import cache
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from task.models.cnn import Cnn

app = ClientApp()


@cache
def work(path: str) -> dict[str, Any]:
    """Return the arrays of the work, loaded once per process."""
    return dict(np.load(path))


class Partition(Dataset[tuple[Tensor, int]]):
    """One client's images, transformed one at a time."""

    def __init__(self, data: dict[str, Any], client: int) -> None:
        positions = data[f"client_{client}"]
        self._images = [Image.fromarray(image) for image in data["images"][positions]]
        self._labels = data["labels"][positions].tolist()
        self._transform = transforms.Compose(
            [
                transforms.RandomCrop(self._images[0].size[0], padding=4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.5,) * 3, (0.25,) * 3),
            ]
        )

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._transform(self._images[index]), self._labels[index]


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for two local epochs of SGD."""
    torch.set_num_threads(1)
    data = Partition(
        work(str(context.run_config["work"])), int(context.node_config["partition-id"])
    )
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = Cnn(3, 10, 256)
    model.load_state_dict(cast(ArrayRecord, message.content["arrays"]).to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)
    model.train()
    total = 0.0
    for _ in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images).logits, labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    metrics = MetricRecord({"train_loss": total / (2 * len(loader)), "num-examples": len(data)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
