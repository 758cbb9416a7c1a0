"""The tensors of checkpoints, read without NumPy."""
import glob
import json
import os
import re
import struct


def checkpoints(directory):
    """The checkpoints of a directory, the oldest first."""
    def order(path):
        return [int(number) for number in re.findall(r"\d+", os.path.basename(path))]
    return sorted(glob.glob(os.path.join(directory, "ckpt-*")), key=order)


def tensors(checkpoint):
    """{name: (dtype, bytes)} of a checkpoint's variables and slots, with their shards joined."""
    shards = {}
    for path in glob.glob(os.path.join(checkpoint, "*.safetensors")):
        with open(path, "rb") as f:
            data = f.read()
        size, = struct.unpack_from("<Q", data)
        for name, tensor in json.loads(data[8:8 + size]).items():
            if name == "__metadata__":
                continue
            variable, _, rows = name.rpartition("/rows_")
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            shards.setdefault(variable, {})[int(rows.split("_")[0])] = (tensor["dtype"], data[begin:end])
    return {variable: (rows[min(rows)][0], b"".join(rows[first][1] for first in sorted(rows)))
            for variable, rows in shards.items()}
