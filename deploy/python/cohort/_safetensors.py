"""Files of tensors: eight bytes with the length of a header, the header as JSON, and the tensors one after the other.

The format is that of the package `safetensors`, which Debian does not have; the names are its names.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

import numpy as np

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4",
          "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {np.dtype(text): name for name, text in _TYPES.items()}
_METADATA = "__metadata__"
_LONGEST_HEADER = 100 << 20


def save_file(values: Mapping[str, np.ndarray], path: str | os.PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays by their names, and texts. Raises TypeError for a type of numbers that the format lacks."""
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    arrays, end = [], 0
    for name, array in sorted(values.items(), key=lambda item: (-item[1].itemsize, item[0])):  # so that each is aligned
        little = array.dtype.newbyteorder("<")
        if little not in _NAMES:
            raise TypeError(f"{name}: numbers of the type {array.dtype} cannot be written to {os.fspath(path)}")
        header[name] = {"dtype": _NAMES[little], "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
        arrays.append(array.astype(little, copy=False))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            file.write(array.tobytes())


class safe_open:  # noqa: N801, the name in the package safetensors
    """A file that is open for reading: `with safe_open(path) as file: file.get_tensor(name)`.

    Raises ValueError for a file that is damaged.
    """

    def __init__(self, path: str | os.PathLike, framework: str = "np") -> None:
        del framework
        self._path = os.fspath(path)
        self._file = open(path, "rb")
        try:
            size = os.fstat(self._file.fileno()).st_size
            length = int.from_bytes(self._file.read(8), "little")
            self._begin = 8 + length
            if size < 8 or length > min(_LONGEST_HEADER, size - 8):
                raise ValueError("its header is longer than the file")
            header = json.loads(self._file.read(length))
            self._metadata = header.pop(_METADATA, None)
            self._entries = {name: self._entry(entry, size - self._begin) for name, entry in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._file.close()
            raise ValueError(f"{self._path} is not a file of safetensors, or is damaged: {error}") from error

    @staticmethod
    def _entry(entry: dict[str, Any], size: int) -> tuple[np.dtype, tuple[int, ...], int]:
        dtype, shape, (begin, end) = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
        if any(n < 0 for n in shape) or not 0 <= begin <= end <= size or end - begin != int(np.prod(shape, dtype=object)) * dtype.itemsize:
            raise ValueError(f"a tensor of {shape} lies at {begin} to {end} of {size} bytes")
        return dtype, shape, begin

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return list(self._entries)

    def metadata(self) -> dict[str, str] | None:
        """The texts of the file."""
        return self._metadata

    def get_tensor(self, name: str) -> np.ndarray:
        """A tensor by its name."""
        dtype, shape, begin = self._entries[name]
        self._file.seek(self._begin + begin)
        array = np.empty(shape, dtype)
        self._file.readinto(array.reshape(-1).view(np.uint8).data)
        return array
