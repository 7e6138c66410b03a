"""Small data sets in the file formats of the real ones; each image has its own colour."""

import csv
import hashlib
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

PACS_DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
HAM_DOMAINS = {"vidir_modern": 12, "rosendahl": 9, "vienna_dias": 5, "vidir_molemax": 14}


def colour(index: int) -> tuple[int, int, int]:
    """Return the colour of an image, unique among millions of images."""
    return 40 + index % 199, 40 + index // 199 % 199, 40 + index // 39601 % 199


def picture(index: int, size: int = 8) -> Image.Image:
    return Image.new("RGB", (size, size), colour(index))


def save(path: Path, index: int) -> Path:
    """Write an image file and return its path; a PNG keeps the exact colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(index).save(path)
    return path


def tree(root: Path, places: Iterable[str], each: int, suffix: str = ".png") -> Path:
    """Write `each` images to every directory in `places`, numbered consecutively; return `root`."""
    for number, place in enumerate(places):
        for image in range(each):
            save(root / place / f"pic_{image:03}{suffix}", number * each + image)
    return root


def pacs(root: Path, each: int = 42) -> Path:
    places = [f"{domain}/{name}" for domain in PACS_DOMAINS for name in PACS_CLASSES]
    return tree(root, places, each, ".jpg")


def office_home(root: Path) -> Path:
    domains = ("Art", "Clipart", "Product", "Real World")
    names = [f"Thing_{index:02}" for index in range(65)]
    return tree(root, [f"{domain}/{name}" for domain in domains for name in names], 8, ".jpg")


def pixels(count: int, size: int, first: int) -> NDArray[np.uint8]:
    """Return [count, size, size, 3]: each image has one colour and a white pixel at (1, 2)."""
    images = np.stack([np.asarray(picture(first + index, size)) for index in range(count)])
    images[:, 1, 2] = 255
    return images


def planes(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return [count, 3 * size * size], first red and row by row, as in CIFAR's files."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def pickled(path: Path, content: dict[str, Any]) -> list[str]:
    """Write a file in CIFAR's format; return its name and checksum, as in torchvision's lists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=2))
    return [path.name, md5(path)]


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def cifar10(root: Path, patch: pytest.MonkeyPatch) -> list[int]:
    """Write five batches of 4 images and a test batch of 6; return their labels."""
    from torchvision.datasets import CIFAR10

    names = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    place = root / "cifar-10-batches-py"
    labels = [(7 * index) % 10 for index in range(26)]
    files = []
    for batch, (first, count) in enumerate([(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 6)]):
        name = f"data_batch_{batch + 1}" if batch < 5 else "test_batch"
        content = {
            "batch_label": name,
            "data": planes(pixels(count, 32, first)),
            "labels": labels[first : first + count],
            "filenames": [f"{index}.png" for index in range(count)],
        }
        files.append(pickled(place / name, content))
    meta = pickled(place / "batches.meta", {"label_names": names, "num_vis": 3072})
    patch.setattr(CIFAR10, "train_list", files[:5])
    patch.setattr(CIFAR10, "test_list", files[5:])
    patch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": meta[1]})
    return labels


def cifar100(root: Path, patch: pytest.MonkeyPatch) -> list[int]:
    """Write a training file of 12 images and a test file of 5; return their fine labels."""
    from torchvision.datasets import CIFAR100

    place = root / "cifar-100-python"
    labels = [(37 * index) % 100 for index in range(17)]
    files = [
        pickled(
            place / name,
            {
                "data": planes(pixels(count, 32, first)),
                "fine_labels": labels[first : first + count],
                "coarse_labels": [0] * count,
            },
        )
        for name, first, count in (("train", 0, 12), ("test", 12, 5))
    ]
    names = {
        "fine_label_names": [f"fine_{index:02}" for index in range(100)],
        "coarse_label_names": [f"coarse_{index:02}" for index in range(20)],
    }
    meta = pickled(place / "meta", names)
    patch.setattr(CIFAR100, "train_list", files[:1])
    patch.setattr(CIFAR100, "test_list", files[1:])
    patch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": meta[1]})
    return labels


def mnist(
    root: Path,
    folder: str = "MNIST",
    names: tuple[str, str] = ("train", "t10k"),
    train: int = 12,
) -> list[int]:
    """Write training images and 4 test images as the four files of MNIST; return their labels."""
    place = root / folder / "raw"
    place.mkdir(parents=True)
    labels = [(3 * index) % 10 for index in range(train + 4)]
    grey = pixels(train + 4, 28, 0)[..., 0]
    for part, at in zip(names, (slice(train), slice(train, None)), strict=True):
        count = len(labels[at])
        head = b"".join(n.to_bytes(4, "big") for n in (2051, count, 28, 28))
        (place / f"{part}-images-idx3-ubyte").write_bytes(head + grey[at].tobytes())
        head = b"".join(n.to_bytes(4, "big") for n in (2049, count))
        (place / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(labels[at]))
    return labels


def svhn(root: Path, patch: pytest.MonkeyPatch) -> list[int]:
    """Write 12 training and 4 test images as matrices of MATLAB; return their labels."""
    from scipy.io import savemat
    from torchvision.datasets import SVHN

    place = root / "SVHN"
    place.mkdir(parents=True)
    labels = [(3 * index) % 10 for index in range(16)]
    images, listed = pixels(16, 32, 0), {}
    for part, at in (("train", slice(12)), ("test", slice(12, 16))):
        path = place / f"{part}_32x32.mat"
        ten_for_zero = np.array([[label or 10] for label in labels[at]], dtype=np.uint8)
        savemat(path, {"X": images[at].transpose(1, 2, 3, 0), "y": ten_for_zero})
        listed[part] = ["", path.name, md5(path)]
    patch.setattr(SVHN, "split_list", listed)
    return labels


def stl10(root: Path, patch: pytest.MonkeyPatch, train: int = 10) -> list[int]:
    """Write training and 4 test images, by column, with labels from 1; return them from 0."""
    from torchvision.datasets import STL10

    place = root / "stl10_binary"
    place.mkdir(parents=True)
    labels = [(3 * index) % 10 for index in range(train + 4)]
    images = pixels(len(labels), 96, 0).transpose(0, 3, 2, 1)
    files = {
        "train_X.bin": images[:train].tobytes(),
        "train_y.bin": bytes(label + 1 for label in labels[:train]),
        "unlabeled_X.bin": b"",
        "test_X.bin": images[train:].tobytes(),
        "test_y.bin": bytes(label + 1 for label in labels[train:]),
        "class_names.txt": b"airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n",
        "fold_indices.txt": b"0 1 2\n" * 10,
    }
    for name, content in files.items():
        (place / name).write_bytes(content)
    listed = [[name, md5(place / name)] for name in files if name.endswith(".bin")]
    patch.setattr(STL10, "train_list", listed[:3])
    patch.setattr(STL10, "test_list", listed[3:])
    return labels


def tiny_imagenet(root: Path) -> list[str]:
    """Write 3 classes of 5 training and 2 validation images; return their unsorted names."""
    place = root / "tiny-imagenet-200"
    names = ["n02124075", "n04067472", "n01443537"]
    for number, name in enumerate(names):
        for image in range(5):
            save(place / "train" / name / "images" / f"{name}_{image}.JPEG", 5 * number + image)
        boxes = "".join(f"{name}_{image}.JPEG\t0\t0\t62\t62\n" for image in range(5))
        (place / "train" / name / f"{name}_boxes.txt").write_text(boxes)
    lines = []
    for image in range(6):
        save(place / "val" / "images" / f"val_{image}.JPEG", 15 + image)
        lines.append(f"val_{image}.JPEG\t{names[image % 3]}\t0\t32\t44\t62\n")
    (place / "val" / "val_annotations.txt").write_text("".join(lines))
    (place / "wnids.txt").write_text("\n".join(names) + "\n")
    (place / "words.txt").write_text("n02124075\tEgyptian cat\n")
    save(place / "test" / "images" / "test_0.JPEG", 99)
    return names


def imagenet(root: Path, classes: int = 1000) -> Path:
    names = [f"n{index:08}" for index in range(classes)]
    for part in ("train", "val"):
        tree(root / part, names, 1, ".JPEG")
        (root / part / ".cache").mkdir()
    return root


def ham10000(
    root: Path, columns: Sequence[str] = ("dataset",), tabs: bool = False
) -> list[dict[str, str]]:
    """Write forty lesions in four domains, every third with two images; return the metadata."""
    kinds = ("nv", "mel", "bkl")
    rows: list[dict[str, str]] = []
    for domain, lesions in HAM_DOMAINS.items():
        for lesion in range(lesions):
            for _ in range(2 if lesion % 3 == 0 else 1):
                number = len(rows)
                rows.append(
                    {
                        "lesion_id": f"HAM_{domain}_{lesion}",
                        "image_id": f"ISIC_{24306 + number:07}",
                        "dx": kinds[lesion % 3],
                        "dx_type": "histo",
                        "age": "80.0",
                        "sex": "male",
                        "localization": "scalp",
                        "dataset": domain,
                    }
                )
                part = f"HAM10000_images_part_{1 + number % 2}"
                save(root / part / f"{rows[-1]['image_id']}.jpg", number)
    head = [name for name in rows[0] if name != "dataset" or "dataset" in columns]
    name = f"HAM10000_metadata.{'tab' if tabs else 'csv'}"
    with (root / name).open("w", newline="") as file:
        delimiter = "\t" if tabs else ","
        writer = csv.DictWriter(file, head, extrasaction="ignore", delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return rows


def parquet(root: Path) -> Path:
    """Write Parquet files with 12 training and 4 test rows and two domains; return `root`."""
    from datasets import ClassLabel, Dataset, Features, Value
    from datasets import Image as Images

    features = Features(
        {
            "image": Images(),
            "label": ClassLabel(names=["zebra", "ape"]),
            "site": Value("string"),
            "patient": Value("int32"),
        }
    )
    root.mkdir(parents=True, exist_ok=True)
    for split, first, count in (("train", 0, 12), ("test", 12, 4)):
        rows = {
            "image": [picture(first + index) for index in range(count)],
            "label": [index % 2 for index in range(count)],
            "site": ["north" if index % 3 else "south" for index in range(count)],
            "patient": [(first + index) // 3 for index in range(count)],
        }
        Dataset.from_dict(rows, features=features).to_parquet(root / f"{split}.parquet")
    return root
