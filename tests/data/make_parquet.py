#!/usr/bin/env python3
"""Writes the Parquet files of parquet_test with pyarrow: make_parquet.py DIRECTORY."""
import datetime
import decimal
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

directory = pathlib.Path(sys.argv[1])
epoch = datetime.date(1970, 1, 1)
second = datetime.datetime(1970, 1, 1)
types = pa.table({
    "int8": pa.array([-1, 0, 1], pa.int8()),
    "uint8": pa.array([0, 200, 255], pa.uint8()),
    "int64": pa.array([9007199254740993, -2, 3], pa.int64()),
    "half": pa.array([0.5, -2.0, 65504.0], pa.float32()).cast(pa.float16()),
    "float": pa.array([0.25, 1, 2], pa.float32()),
    "double": pa.array([0.1, 0.2, 0.3], pa.float64()),
    "decimal": pa.array([decimal.Decimal(text) for text in ("1.25", "-2.50", "0.00")], pa.decimal128(9, 2)),
    "date": pa.array([epoch + datetime.timedelta(days) for days in (0, 1, 20000)], pa.date32()),
    "time": pa.array([second + datetime.timedelta(seconds=s) for s in (0, 1.5, 1e9)], pa.timestamp("us")),
    "list": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32())),
    "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)),
    "city": pa.array(["Rome", "Oslo", "Rome"]),
    "category": pa.array(["a", "b", "a"]).dictionary_encode(),
    "tags": pa.array([["x", "y"], ["y", "x"], ["x", "x"]]),
    "struct": pa.array([{"a": 1}] * 3),
})
pq.write_table(types, directory / "types.parquet", compression="zstd")
for part in range(3):
    rows = range(part * 1000, min(part * 1000 + 1000, 2500))
    pq.write_table(pa.table({"x": pa.array(rows, pa.int64()), "y": pa.array([r / 2 for r in rows])}),
                   directory / f"part-{part}.parquet", row_group_size=130)
pq.write_table(pa.table({"x": pa.array([1.0, None]), "u": pa.array([1, None], pa.uint8())}), directory / "null.parquet")
pq.write_table(pa.table({"v": pa.array([[1, 2], [1, 2, 3]])}), directory / "ragged.parquet")
# 64 MB, in row groups of 1 MB.
columns = {f"x{c}": pa.array([((r * 2654435761 + c) % 4294967291) / 7 for r in range(200_000)]) for c in range(8)}
with pq.ParquetWriter(directory / "large.parquet", pa.table(columns).schema, compression="none",
                      use_dictionary=False) as writer:
    for _ in range(5):
        writer.write_table(pa.table(columns), row_group_size=16_000)
