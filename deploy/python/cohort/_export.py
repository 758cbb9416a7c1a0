"""`cohort.export`: a trained model as a file for other programs."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from typing import Any, Callable

from cohort import _programs
from cohort._export_model import ExportError, TrainedModel, path_of, read

# By format: the ending of its files, the module that it needs, and what installs this.
FORMATS = {
    "keras": (".keras", "keras", "keras tensorflow-cpu (or another backend)"),
    "weights_h5": (".weights.h5", "keras", "keras tensorflow-cpu (or another backend)"),
    "safetensors": (".safetensors", "safetensors", "safetensors"),
    "onnx": (".onnx", "onnx", "onnx keras tensorflow-cpu (or another backend)"),
    "torch": (".pt", "torch", "torch"),
}


def export(checkpoint: Any, path: str | os.PathLike | None = None, *, format: str | None = None,  # pylint: disable=redefined-builtin
           preprocessing: bool = True) -> str:
    """Writes a trained model, without the state of its optimizer, into one file.

    Args:
        checkpoint: a checkpoint, a folder of checkpoints (the newest whole one counts), FOLDER/best, a run directory, or the History
            that `cohort.fit` returned.
        path: the file to write; `model` with the ending of the format by default.
        format: "keras" (opens with `keras.saving.load_model`), "weights_h5" (`load_weights` of a model with the same layers),
            "safetensors" (the variables by their names), "onnx" (for inference, with a dynamic batch), or "torch" (a `state_dict`).
            By default the ending of `path` tells: .keras, .weights.h5, .safetensors, .onnx, .pt or .pth.
        preprocessing: of keras and onnx: lookups, normalization and other transforms of columns become a part of the model, if the format
            can express them, so that its inputs are the columns of the data.

    Returns:
        A text that says what was written, which transforms are in the file, and which ones the caller has to apply.

    Raises:
        ExportError: the format cannot express the model; names the layer.
        ProgramError: there is no whole checkpoint.
        ImportError: a package is missing; says what to install.
    """
    format = format or _format_of(path)
    if format not in FORMATS:
        raise TypeError(f"format={format!r}: it is one of {', '.join(FORMATS)}")
    path = os.fspath(path or f"model{FORMATS[format][0]}")
    ending, module, install = FORMATS[format]
    if format in ("keras", "weights_h5") and not path.endswith(ending):
        raise ValueError(f"{path}: Keras reads the format {format} only from files that end with {ending}")
    _need(format, module, install)
    if format == "safetensors":
        return _programs.output("export", "--format", "safetensors", "--out", path, path_of(checkpoint)).rstrip()
    trained = read(checkpoint)
    if format == "keras":
        from cohort import _export_keras as writer

        return _written(trained, path, ending, lambda file: writer.save(trained, file, preprocessing))
    if format == "weights_h5":
        from cohort import _export_keras as writer

        return _written(trained, path, ending, lambda file: writer.save_weights(trained, file))
    if format == "onnx":
        _need(format, "keras", install)
        from cohort import _export_onnx as onnx_writer

        return _written(trained, path, ending, lambda file: onnx_writer.save(trained, file, preprocessing))
    from cohort import _export_torch as torch_writer

    return _written(trained, path, ending, lambda file: torch_writer.save(trained, file))


def export_saved_model(checkpoint: Any, directory: str | os.PathLike, *, preprocessing: bool = True) -> str:
    """Writes a SavedModel of TensorFlow for serving, with the signature `serve`.

    Needs Keras with the backend tensorflow. Arguments and errors are those of `export`; `directory` must not exist yet.
    """
    directory = os.fspath(directory)
    if os.path.exists(directory):
        raise FileExistsError(f"{directory} exists: name a folder that does not")
    _need("SavedModel", "tensorflow", "keras tensorflow-cpu")
    _need("SavedModel", "keras", "keras tensorflow-cpu")
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ImportError(f"a SavedModel needs Keras' backend tensorflow, and it is {keras.backend.backend()}: set "
                          f"KERAS_BACKEND=tensorflow before the first import of keras")
    from cohort import _export_keras as writer

    trained = read(checkpoint)

    def save(folder: str) -> Any:
        built = writer.build(trained, writer.expressible if preprocessing else None)
        built.model.export(folder, verbose=False)
        return built

    return _written(trained, directory, "", save)


def _format_of(path: Any) -> str:
    if path is None:
        raise TypeError(f"name a `path`, whose ending tells the format, or the `format`: {', '.join(FORMATS)}")
    name = os.fspath(path)
    if name.endswith(".pth"):
        return "torch"
    for format, (ending, _, _) in FORMATS.items():  # pylint: disable=redefined-builtin
        if name.endswith(ending):
            return format
    raise TypeError(f"{name}: its ending tells no format; pass format=, one of {', '.join(FORMATS)}")


def _need(format: str, module: str, install: str) -> None:  # pylint: disable=redefined-builtin
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"the format {format} needs the Python package {module} ({error}): "
                          f"{sys.executable} -m pip install {install}", name=module) from error


def _written(trained: TrainedModel, path: str, ending: str, save: Callable[[str], Any]) -> str:
    """Writes beside the place, so that the file exists whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path}: the folder {folder} does not exist")
    scratch = tempfile.mkdtemp(prefix=".cohort-export-", dir=folder)
    try:
        temporary = os.path.join(scratch, "model" + ending)
        done = save(temporary)
        if os.path.isfile(temporary):
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    lines = [f"{path}: the model {trained.name} of {trained.checkpoint}"]
    lines += [f"  in the file: {text}" for text in getattr(done, "inside", [])]
    lines += [f"  not in the file: {text}" for text in getattr(done, "outside", [])]
    if getattr(done, "has_variables", False) and ending == ".keras":
        lines.append("  it has layers of Cohort: call cohort.register_keras() before keras.saving.load_model")
    if ending == ".weights.h5":
        lines.append("  it fits the model of the .keras file; for a model of your own call cohort.load_weights(model, checkpoint), and then its "
                     "save_weights")
    return "\n".join(lines)


def register_keras() -> None:
    """Lets `keras.saving.load_model` read the layer of Cohort in files of `cohort.export`: variables that belong to no layer of Keras."""
    importlib.import_module("cohort._export_keras")
