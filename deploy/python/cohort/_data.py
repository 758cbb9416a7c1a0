"""The data of a call of `fit` as files that workers map."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Iterator, Mapping

import numpy as np

# What one call of `fit` may write into files.
DATA_LIMIT = 1 << 34  # bytes


class Columns:
    """Columns of equally many records: those of the model's inputs, of its labels and of the sample weights.

    `weight`: one array of factors, or a mapping with one for each label.
    """

    def __init__(self, inputs: Mapping[str, Any], labels: Mapping[str, Any], weight: Any = None):
        self.arrays: dict[str, np.ndarray] = {}
        self.labels = list(labels)
        self.weights: list[str] = []
        for name, x in {**inputs, **labels}.items():
            if name in self.arrays:
                raise TypeError(f"two columns have the name {name!r}")
            self.arrays[name] = _array(x, name)
        if isinstance(weight, Mapping):
            if set(weight) != set(labels):
                raise ValueError(f"sample_weight has {', '.join(map(str, weight))}, and the outputs are {', '.join(labels)}")
            self.weights = [f"sample_weight_{name}" for name in labels]
            self.arrays.update((f"sample_weight_{name}", _array(weight[name], "sample_weight")) for name in labels)
        elif weight is not None:
            self.weights = ["sample_weight"]
            self.arrays["sample_weight"] = _array(weight, "sample_weight")
        counts = {name: len(x) for name, x in self.arrays.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"the columns have different numbers of records: {counts}")
        self.records = next(iter(counts.values()), 0)
        if self.records == 0:
            raise ValueError("there are no records")

    def write(self, folder: str, name: str, limit: int = DATA_LIMIT) -> dict[str, Any]:
        """Writes the files of a dataset; returns its keys in a job. They exist whole or not at all."""
        with Writer(folder, name, self, limit) as writer:
            writer.append(self)
            return writer.finish()


class Writer:
    """Writes records in parts, which have the columns of the first one: a `.npy` file for each column, or JSON lines if there are words."""

    def __init__(self, folder: str, name: str, first: Columns, limit: int = DATA_LIMIT):
        self._columns = first
        self._limit = limit
        self._bytes = 0
        self.records = 0
        self._words = any(x.dtype == object for x in first.arrays.values())
        if self._words:
            self._paths = [os.path.join(folder, f"{name}.jsonl")]
            self._files = [open(f"{self._paths[0]}.new", "w", encoding="utf-8")]
        else:
            self._paths = [os.path.join(folder, f"{name}-{column.replace('/', '_')}.npy") for column in first.arrays]
            self._files = [open(f"{path}.new", "wb") for path in self._paths]
            for file, x in zip(self._files, first.arrays.values()):
                file.write(_npy_header(x.dtype, (0, *x.shape[1:])))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: Any) -> None:
        for file, path in zip(self._files, self._paths):
            file.close()
            if os.path.exists(f"{path}.new"):
                os.unlink(f"{path}.new")

    def append(self, part: Columns) -> None:
        for name, x in self._columns.arrays.items():
            other = part.arrays.get(name)
            if other is None or other.shape[1:] != x.shape[1:]:
                got = "nothing" if other is None else f"records of shape {list(other.shape[1:])}"
                raise ValueError(f"the column {name!r}: record {self.records} and those after it have {got}, "
                                 f"and the first ones have the shape {list(x.shape[1:])}: pad them to one shape")
        self._bytes += sum(x.nbytes for x in part.arrays.values())
        if self._bytes > self._limit:
            raise ValueError(f"the data has more than {self._limit / 2**30:.1f} GiB, which `fit` would copy into files: name files in `data`, "
                             f"or pass a larger `data_limit` (bytes)")
        if self._words:
            columns = [(name, part.arrays[name].tolist()) for name in self._columns.arrays]
            for i in range(part.records):
                self._files[0].write(json.dumps({name: values[i] for name, values in columns}, ensure_ascii=False) + "\n")
        else:
            for file, (name, first) in zip(self._files, self._columns.arrays.items()):
                file.write(np.ascontiguousarray(part.arrays[name].astype(first.dtype, copy=False)).data)
        self.records += part.records

    def finish(self) -> dict[str, Any]:
        """Completes the files; returns the keys of the dataset."""
        columns = self._columns
        for file, x in zip(self._files, columns.arrays.values()):
            if not self._words:
                file.seek(0)
                file.write(_npy_header(x.dtype, (self.records, *x.shape[1:])))
            file.close()
        for path in self._paths:
            os.replace(f"{path}.new", path)
        dataset: dict[str, Any] = {"json_lines": {"path": self._paths[0]}} if self._words else {
            "npy": {"files": self._paths, "columns": list(columns.arrays)}}
        dataset["label"] = columns.labels[0] if len(columns.labels) == 1 else columns.labels
        if columns.weights:
            dataset["sample_weight"] = columns.weights[0] if len(columns.weights) == 1 else columns.weights
        return dataset


def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The head of a `.npy` file, of a size that does not depend on the number of records."""
    text = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 502) + text.ljust(501).encode() + b"\n"


def _array(x: Any, name: str) -> np.ndarray:
    """Numbers, or words as an array of `str`."""
    if hasattr(x, "detach"):  # a tensor of PyTorch
        x = x.detach().cpu().numpy()
    if hasattr(x, "to_numpy"):  # pandas, pyarrow
        x = x.to_numpy()
    elif hasattr(x, "numpy"):  # TensorFlow
        x = x.numpy()
    array = np.asarray(x)
    if array.ndim == 0:
        raise TypeError(f"the column {name!r} is a single number")
    if array.dtype.kind in "OUS":
        return _words(array, name)
    if array.dtype == bool:
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"the column {name!r} has {array.dtype} values: pass numbers or words")
    return array


def _words(array: np.ndarray, name: str) -> np.ndarray:
    words = np.empty(array.shape, object)
    for at, value in np.ndenumerate(array):
        if isinstance(value, bytes):
            value = value.decode("utf-8")
        if not isinstance(value, str):
            raise TypeError(f"the column {name!r} has the value {value!r} at {list(at)}: a column has numbers only, or words only, and none is "
                            f"missing: fill it, or pass each column of a table by its name")
        words[at] = str(value)
    return words


def arrays_of(x: Any, inputs: int = 1) -> Any:
    """x with arrays in the places of lists of numbers or words, as `x.tolist()` gives them. `inputs`: how many the model has."""
    if isinstance(x, Mapping):
        return {name: arrays_of(column) for name, column in x.items()}
    if not isinstance(x, (list, tuple)):
        return x
    if (inputs > 1 and len(x) == inputs) or _has_arrays(x):
        return type(x)(arrays_of(column) for column in x)
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(f"x is a list whose records have different shapes: pad them to one shape ({error})") from error


def _has_arrays(x: Any) -> bool:
    return any(map(_has_arrays, x)) if isinstance(x, (list, tuple)) else hasattr(x, "shape")


def split_inputs(x: Any, names: list[str], shapes: Mapping[str, list[int]] | None = None) -> dict[str, Any]:
    """x of Model.fit, by the names of the model's inputs. `shapes`: those of records; [n] and [n, 1] stand for each other, as in Keras."""
    columns = _split(x, names)
    for name, shape in (shapes or {}).items():
        column = columns[name] = _array(columns[name], name)
        if column.shape[1:] != tuple(shape) and sorted((column.shape[1:], tuple(shape))) == [(), (1,)]:
            columns[name] = column = column.reshape(-1, *shape)
        if column.shape[1:] != tuple(shape):
            raise ValueError(f"the input {name!r} has the shape {list(column.shape)}, and the model takes records of the shape {shape}")
    return columns


def _split(x: Any, names: list[str]) -> dict[str, Any]:
    if hasattr(x, "column_names") and hasattr(x, "column"):  # a table of PyArrow
        x = {name: x.column(name) for name in x.column_names}
    if isinstance(x, Mapping) or (hasattr(x, "columns") and (len(names) > 1 or names[0] in x.columns)):
        missing = [name for name in names if name not in x]
        if missing:
            raise ValueError(f"x lacks the input {missing[0]!r}; it has {', '.join(map(str, x))}")
        return {name: x[name] for name in names}
    if len(names) > 1:
        if not isinstance(x, (list, tuple)):
            raise ValueError(f"the model has {len(names)} inputs ({', '.join(names)}): pass x as a list or a dict")
        if len(x) != len(names):
            raise ValueError(f"the model has {len(names)} inputs ({', '.join(names)}), and x has {len(x)}")
        return dict(zip(names, x))
    if isinstance(x, (list, tuple)) and len(x) == 1 and np.ndim(x[0]) > 0:
        x = x[0]
    return {names[0]: x}


def split_labels(y: Any, outputs: list[str]) -> dict[str, Any]:
    """y of Model.fit, as columns."""
    if y is None:
        raise TypeError("y, the labels, are required")
    if len(outputs) == 1:
        if isinstance(y, Mapping) and len(y) == 1:
            y = next(iter(y.values()))
        return {"label": y}
    if isinstance(y, Mapping) or hasattr(y, "columns"):
        missing = [name for name in outputs if name not in y]
        if missing:
            raise ValueError(f"y lacks the output {missing[0]!r}; it has {', '.join(map(str, y))}")
        return {f"label_{name}": y[name] for name in outputs}
    if not isinstance(y, (list, tuple)) or len(y) != len(outputs):
        raise ValueError(f"the model has {len(outputs)} outputs ({', '.join(outputs)}): pass y as a list of as many arrays, or as a dict")
    return {f"label_{name}": item for name, item in zip(outputs, y)}


def split_weights(weight: Any, outputs: list[str]) -> Any:
    """sample_weight of Model.fit: an array, or a dict with the names of the columns of labels."""
    if weight is None or len(outputs) == 1 and not isinstance(weight, Mapping):
        return weight
    if isinstance(weight, Mapping):
        if len(outputs) == 1:
            return next(iter(weight.values()))
        return {f"label_{name}": x for name, x in weight.items()}
    if isinstance(weight, (list, tuple)) and len(weight) == len(outputs) and np.ndim(weight[0]) > 0:
        return {f"label_{name}": x for name, x in zip(outputs, weight)}
    return weight


# ---------------------------------------------------------------- datasets of frameworks


def is_dataset(x: Any) -> bool:
    """True for an object that gives batches or records: tf.data.Dataset, keras.utils.PyDataset, a Dataset or DataLoader of PyTorch."""
    if isinstance(x, (np.ndarray, Mapping, list, tuple, str)) or hasattr(x, "columns") or hasattr(x, "column_names") or hasattr(x, "dtype"):
        return False
    return hasattr(x, "as_numpy_iterator") or hasattr(x, "__next__") or hasattr(x, "__getitem__") or hasattr(x, "batch_sampler")


def batches_of(data: Any) -> Iterator[tuple[Any, Any, Any]]:
    """x, y and sample weights of each batch. Raises TypeError for data without an end."""
    for item in _items(data):
        item = tuple(item) if isinstance(item, (list, tuple)) else (item,)
        if not 2 <= len(item) <= 3:
            raise TypeError(f"the dataset gives {len(item)} values: (x, y) or (x, y, sample_weight) are needed")
        yield (*item, None)[:3]


def _items(data: Any) -> Iterator[Any]:
    if hasattr(data, "as_numpy_iterator"):
        if int(data.cardinality()) == -1:
            raise TypeError("the dataset has no end: call .take(batches) on it, or leave out .repeat()")
        return iter(data.as_numpy_iterator())
    if hasattr(data, "batch_sampler"):  # a DataLoader of PyTorch
        return iter(data)
    if hasattr(data, "num_batches"):
        if data.num_batches is None:
            raise TypeError("the PyDataset has no `num_batches`, so it has no end: define __len__")
        return (data[i] for i in range(data.num_batches))
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):  # a Dataset of PyTorch has records

        def record(x: Any) -> Any:
            return {k: record(v) for k, v in x.items()} if isinstance(x, Mapping) else [record(v) for v in x] if isinstance(x, (list, tuple)) \
                else np.asarray(x)[None]

        return ([record(part) for part in data[i]] for i in range(len(data)))
    raise TypeError("a generator has no end that a job can know, and a job reads its data once per epoch: pass arrays, a keras.utils.PyDataset, "
                    "a tf.data.Dataset, or the name of a file in `data`")


# ---------------------------------------------------------------- files

_SOURCES = {".csv": "csv", ".tsv": "csv", ".jsonl": "json_lines", ".ndjson": "json_lines", ".npz": "npz", ".parquet": "parquet", ".libsvm": "libsvm"}


def _has_images(path: str) -> bool:
    """True for a folder whose folders have images."""
    parts = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else []
    return any(name.lower().endswith((".jpg", ".jpeg", ".png")) for part in parts if os.path.isdir(part) for name in os.listdir(part))


def dataset_of(data: Any, label: Any, shapes: Mapping[str, list[int]]) -> dict[str, Any]:
    """The keys of a dataset of a job for a file, or for a folder with a folder of images for each class; a dict has them already.

    shapes: those of records of the model's inputs, by their names.
    """
    if isinstance(data, dict):
        return {**data, **({} if label is None else {"label": label})}
    path = os.path.abspath(os.fspath(data))
    if not os.path.exists(path):
        raise FileNotFoundError(f"data: {path} does not exist")
    if _has_images(path):
        return {"image_folder": {"directory": path}, "label": "label" if label is None else label}
    name = path[: -3] if path.endswith(".gz") else path[:-4] if path.endswith(".zst") else path
    source = _SOURCES.get(os.path.splitext(name)[1])
    if source is None:
        raise TypeError(f"{data}: pass the keys of a dataset as a dict, as {{'tfrecord': {{'path': ..., 'features': ...}}}} or "
                        f"{{'text_folder': {{'directory': ...}}}}; the name of a file tells its source if it ends with "
                        f"{', '.join(_SOURCES)}")
    if source == "libsvm":
        return _libsvm(path, label, shapes)
    if label is None:
        raise TypeError(f"{data}: `label` names the column that is the label")
    argument = {"path": path} if source in ("csv", "json_lines", "npz") else {"files": [path]}
    if path.endswith(".tsv"):
        argument["delimiter"] = "\t"
    return {source: argument, "label": label}


def _libsvm(path: str, label: Any, shapes: Mapping[str, list[int]]) -> dict[str, Any]:
    """A file of LIBSVM, which has the columns `features` and `label`, and does not tell how many features there are."""
    shape = shapes.get("features", [])
    if len(shape) != 1:
        raise TypeError(f"{path}: a file of LIBSVM has the column `features`, and its length is that of the model's input. The model has the inputs "
                        f"{', '.join(f'{name} {list(size)}' for name, size in shapes.items())}: name one `features`, as in "
                        f"keras.Input((n,), name=\"features\")")
    return {"libsvm": {"files": [path], "num_features": shape[0]}, "label": "label" if label is None else label}
