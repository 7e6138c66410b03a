"""``univarfl export``: the model as files that run without univarfl."""

import hashlib
import importlib.util
import io
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch.export import Dim, ExportedProgram

from task.errors import ConfigError, RunError, system_reason
from task.inference.classifier import Classifier
from task.machine.files import write_whole
from univarfl.inference.card import agreement, write_card
from univarfl.inference.model import TrainedModel, trained_model
from univarfl.records.output_directory import make_output_directory
from univarfl.terminal.steps import steps_on_terminal

OUTPUT = "probabilities"
TOLERANCE = 1e-4  # largest allowed difference of a probability
ONNX_NEEDS = ("onnx", "onnxscript", "onnxruntime")
WITHOUT_ONNX = 'needs more packages: uv sync --extra onnx, or pip install "univarfl[onnx]"'

Predict = Callable[[torch.Tensor], torch.Tensor]

logger = logging.getLogger("univarfl")


def export(directory: Path, to: Path, only: Sequence[str], client: int | None = None) -> None:
    """Write a run's model in each format, test each file, and write a model card.

    Args:
        directory: the run's directory.
        to: the directory to write into.
        only: the formats, ``pt2`` or ``onnx``; empty for every format whose packages are installed.
        client: the client whose own model is written, if each one has its own.

    Raises:
        ConfigError: there is no such run or format, or the files cannot be written.
        RunError: a file gives other probabilities than the network.
    """
    for name in only:
        if name not in FORMATS:
            raise ConfigError("--only", name, f"choose from {', '.join(FORMATS)}")
    if "onnx" in only and not onnx_installed():
        raise ConfigError("--only", "onnx", WITHOUT_ONNX)
    model = trained_model(directory, "cpu", client)
    wanted = list(only) or [name for name in FORMATS if name != "onnx" or onnx_installed()]
    try:
        make_output_directory(to)
        earlier = files_of_card(to)
        written = write_formats(model, to, wanted)
        for path in outdated(to, earlier, written):
            path.unlink()
            logger.info("%s: deleted, as an earlier export wrote it and this one does not", path)
        write_card(model, to, written)
    except OSError as error:
        raise ConfigError("--to", to, f"must be writable: {system_reason(error)}") from None
    if not only and "onnx" not in wanted:
        logger.info("left out: model.onnx %s", WITHOUT_ONNX)
    logger.info("%s: the model card, with an example of use", to / "model_card.md")


def files_of_card(directory: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file that a directory's model card lists, if it has one."""
    try:
        files = json.loads((directory / "model_card.json").read_text())["files"]
        return {str(name): str(facts["sha256"]) for name, facts in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def outdated(to: Path, earlier: Mapping[str, str], written: Collection[str]) -> Iterator[Path]:
    """Yield the files of an earlier export that are not written now and have not changed.

    Args:
        to: the directory.
        earlier: by name, the SHA-256 of the files of the earlier export.
        written: the names of the files that are written now.
    """
    for name in {f"model.{each}" for each in FORMATS} - set(written):
        path = to / name
        if path.is_file() and earlier.get(name) == hashlib.sha256(path.read_bytes()).hexdigest():
            yield path


def write_formats(
    model: TrainedModel, to: Path, wanted: Sequence[str]
) -> dict[str, dict[str, object]]:
    """Write a model in some formats and test each file; return facts of each file by its name.

    Raises:
        OSError: a file cannot be written.
        RunError: a file gives other probabilities than the network; nothing is written.
    """
    contents: dict[Path, bytes] = {}
    written: dict[str, dict[str, object]] = {}
    with steps_on_terminal(1 + 2 * len(wanted)) as begin:
        begin("tracing the network")
        program = exported(model.classifier)
        for name in wanted:
            path = to / f"model.{name}"
            begin(f"making {path.name}")
            content, predict = FORMATS[name](program, model)
            begin(f"comparing {path.name} with PyTorch")
            largest = largest_difference(predict, model.classifier)
            contents[path] = content
            digest = hashlib.sha256(content).hexdigest()
            written[path.name] = {"sha256": digest, "largest_difference": largest}
            logger.info("%s: agrees with PyTorch %s", path, agreement(largest))
    for path, content in contents.items():
        write_whole(path, content)
    return written


def onnx_installed() -> bool:
    """Return whether the packages for ONNX are installed."""
    return all(importlib.util.find_spec(name) for name in ONNX_NEEDS)


def exported(classifier: Classifier) -> ExportedProgram:
    """Return the network as an exported program, with what comes before it.

    It takes any number of images of any height and width, or of rows.
    """
    *_, example = classifier.examples()
    axes = {place: Dim(name) for place, name in enumerate(classifier.axes)}
    names = {classifier.input_name: axes}
    return torch.export.export(classifier, (example,), dynamic_shapes=names)


def as_program(program: ExportedProgram, model: TrainedModel) -> tuple[bytes, Predict]:
    """Return a file for ``torch.export.load`` with the class names, and a function that runs it."""
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={"classes.json": json.dumps(model.classes)})
    content = file.getvalue()
    return content, torch.export.load(io.BytesIO(content)).module()


def as_onnx(program: ExportedProgram, model: TrainedModel) -> tuple[bytes, Predict]:
    """Return an ONNX file with the class names in its metadata, and a function that runs it."""
    # Imported here because the packages are optional and slow to import.
    import onnx_ir  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415

    classifier = model.classifier
    name, axes = classifier.input_name, classifier.axes
    made = torch.onnx.export(
        program, input_names=[name], output_names=[OUTPUT], dynamo=True, verbose=False
    )
    assert made is not None
    graph = made.model.graph
    graph.inputs[0].shape = onnx_ir.Shape([*axes, classifier.channels])
    graph.outputs[0].shape = onnx_ir.Shape([axes[0], len(model.classes)])
    made.model.metadata_props["classes"] = json.dumps(model.classes)
    content = made.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def predict(pixels: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(session.run([OUTPUT], {name: pixels.numpy()})[0])

    return content, predict


FORMATS: dict[str, Callable[[ExportedProgram, TrainedModel], tuple[bytes, Predict]]] = {
    "pt2": as_program,
    "onnx": as_onnx,
}


def largest_difference(predict: Predict, classifier: Classifier) -> float:
    """Return the largest difference between two models' probabilities, on `Classifier.examples`.

    Raises:
        RunError: the difference is larger than `TOLERANCE`.
    """
    largest = 0.0
    with torch.inference_mode():
        for pixels in classifier.examples():
            difference = float((predict(pixels) - classifier(pixels)).abs().max())
            if not difference <= TOLERANCE:  # NaN is not
                raise RunError(
                    f"the exported model's probabilities differ from PyTorch's by {difference:.1e};"
                    f" at most {TOLERANCE:.0e} is allowed"
                )
            largest = max(largest, difference)
    return largest
