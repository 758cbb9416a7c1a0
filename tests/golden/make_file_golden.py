#!/usr/bin/env python3
"""Writes small data files with the real libraries, and what they hold, to tests/golden/files:

    python3 -m venv build/venv && build/venv/bin/pip install pandas scikit-learn pyarrow
    build/venv/bin/python tests/golden/make_file_golden.py tables
    PYTHON_WITH_TENSORFLOW tests/golden/make_file_golden.py tensorflow

`tables` uses pandas, scikit-learn, pyarrow and NumPy. Also expressions, filters and dates, by pandas. A case of
tables.json or tensorflow.json is a file, the class that reads it, and the values of its columns.
"""
import json
import math
import pathlib
import sys

DIRECTORY = pathlib.Path(__file__).parent / "files"
cases = []


def case(file, source, columns, config=None, transforms=()):
    """`columns`: the numbers of all records by name. `transforms`: lists of column, class, config."""
    cases.append({"file": file, "source": source, "config": config or {}, "columns": columns,
                  "transforms": [{"column": c, "class": k, "config": a} for c, k, a in transforms]})


def lookup(words, vocabulary):
    return [vocabulary.index(word) + 1 if word in vocabulary else 0 for word in words]


def write_json(name, golden):
    (DIRECTORY / name).write_text(json.dumps(golden, ensure_ascii=False).replace("}, {", "},\n {") + "\n")


def tables():
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
    import sklearn
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    words = ["plain", "a,b", 'say "hi"', "two\nlines", "", "Zürich"]
    # An empty cell is missing for pandas, and the word "" for a transform.
    vocabulary = ["plain", "a,b", 'say "hi"', "two\nlines", "Zürich"]
    when = pd.to_datetime(["2024-02-29 00:00:00", "2024-12-30 23:59:58.500", "1969-12-31 23:59:00",
                           "2021-01-03 12:00:00", "2000-01-01 00:00:00", "1999-06-30 06:30:15.250"],
                          format="ISO8601")
    frame = pd.DataFrame({
        "id": np.array([0, -1, 2**53 + 1, 7, 2**62, 12], np.int64),
        "x": [0.1, -1e-7, 1e300, 2.5, -0.0, 1 / 3],
        "flag": [True, False, True, True, False, False],
        "word": words,
        "when": when,
    })
    seconds = [t.timestamp() for t in when]
    of_word = ("word", "StringLookup", {"vocabulary": vocabulary, "oov_token": "[UNK]"})
    of_flag = ("flag", "Equals", {"value": "True"})
    of_when = ("when", "Date", {})
    same = {"id": frame["id"].tolist(), "x": frame["x"].tolist(), "word": lookup(words, vocabulary),
            "flag": frame["flag"].astype(int).tolist(), "when": seconds}

    # pandas: an index without a name, quotes, line ends within them.
    indexed = dict(same, **{"Unnamed: 0": list(range(6))})
    frame.to_csv(DIRECTORY / "pandas.csv")
    case("pandas.csv", "csv", indexed, {}, [of_word, of_flag, of_when])
    frame.to_csv(DIRECTORY / "pandas.csv.gz", compression={"method": "gzip", "mtime": 1})
    case("pandas.csv.gz", "csv", indexed, {}, [of_word, of_flag, of_when])
    frame.to_csv(DIRECTORY / "pandas_excel.csv", sep=";", decimal=",", encoding="utf-8-sig", lineterminator="\r\n",
                 index=False, quoting=1, date_format="%d.%m.%Y %H:%M:%S.%f")
    # Within quotes the line end is that of the text.
    case("pandas_excel.csv", "csv", same, {"delimiter": ";", "decimal": ","},
         [of_word, of_flag, ("when", "Date", {"format": "%d.%m.%Y %H:%M:%E*S"})])

    missing = frame.assign(x=[0.1, None, 1e300, 2.5, None, 1 / 3])
    filled = dict(same, x=[-1 if math.isnan(x) else x for x in missing["x"]])
    missing.to_csv(DIRECTORY / "pandas_missing.csv", index=False, na_rep="NA")
    case("pandas_missing.csv", "csv", {k: filled[k] for k in ("id", "x")}, {"missing": -1.0, "na_values": ["NA"]})
    missing.to_json(DIRECTORY / "pandas.jsonl", orient="records", lines=True, date_unit="ms", date_format="epoch",
                    double_precision=15)
    # `to_json` keeps 15 digits at most.
    back = pd.read_json(DIRECTORY / "pandas.jsonl", lines=True, precise_float=True)
    of_json = dict(filled, x=[-1 if x != x else x for x in back["x"].tolist()])
    # Found columns of numbers with fractions would be float32.
    declared = {"id": {"class": "tensor", "dtype": "int64"}, "x": {"class": "tensor", "dtype": "float64"},
                "flag": {"class": "tensor", "dtype": "bool"}, "word": {"class": "words"},
                "when": {"class": "tensor", "dtype": "int64"}}
    case("pandas.jsonl", "json_lines", of_json, {"missing": -1.0, "columns": declared},
         [of_word, ("when", "Date", {"unit": "ms"})])
    missing.to_json(DIRECTORY / "pandas_iso.jsonl.gz", orient="records", lines=True, date_format="iso", date_unit="us",
                    double_precision=15, compression={"method": "gzip", "mtime": 1})
    case("pandas_iso.jsonl.gz", "json_lines", {"when": seconds, "id": same["id"]}, {"missing": -1.0}, [of_when])
    missing.to_parquet(DIRECTORY / "pandas.parquet")
    of_parquet = dict(filled, when=[n for t in when for n in (t.hour, t.minute, t.dayofweek)])
    case("pandas.parquet", "parquet", of_parquet, {"missing": -1.0},
         [of_word, ("when", "Date", {"parts": ["hour", "minute", "weekday"]})])

    # pyarrow: dictionaries, nulls, decimals, zones, lists of several lengths, row groups.
    import decimal
    lists = [[1, 2, 3], [], None, [4], [5, 6], [7, 8, 9, 10]]
    tags = [["a", "b"], ["b"], [], None, ["c", "a", "b"], ["a"]]
    nullable = [1, None, 3, None, 5, 2**40]
    table = pa.table({
        "city": pa.array(["Oslo", "Rome", "Oslo", None, "Rome", "Bern"]).dictionary_encode(),
        "nullable": pa.array(nullable, pa.int64()),
        "flag": pa.array([True, None, False, True, True, False]),
        "price": pa.array([decimal.Decimal(f"{i}.{i}5") for i in range(6)], pa.decimal128(7, 2)),
        "zoned": pa.array(list(when.tz_localize("UTC").tz_convert("Asia/Tokyo")),
                          pa.timestamp("ms", "Asia/Tokyo")),
        "day": pa.array([t.date() for t in when], pa.date32()),
        "small": pa.array([-128, 127, 0, 1, 2, 3], pa.int8()),
        "big_text": pa.array(["x"] * 3 + ["y"] * 3, pa.large_string()),
        "lists": pa.array(lists, pa.list_(pa.float32())),
        "tags": pa.array(tags, pa.list_(pa.string())),
    })
    padded = [float(v) for row in lists for v in ((row or []) + [-1] * 3)[:3]]
    arrow = {
        "city": lookup(["Oslo", "Rome", "Oslo", "", "Rome", "Bern"], ["Oslo", "Rome", "Bern"]),
        "nullable": [-1 if v is None else v for v in nullable],
        "price": [float(f"{i}.{i}5") for i in range(6)],
        "zoned": [math.floor(s * 1000) / 1000 for s in seconds],
        "day": [n for t in when for n in (t.year, t.month, t.day)],
        "small": [-128, 127, 0, 1, 2, 3],
        "big_text": [1, 1, 1, 2, 2, 2],
        "lists": padded,
        "tags": [n for row in tags for n in lookup(((row or []) + ["", ""])[:2], ["a", "b", "c"])],
    }
    config = {"missing": -1.0, "missing_word": "",
              "lists": {"lists": {"class": "numbers", "length": 3, "pad_with": -1.0, "truncate": True},
                        "tags": {"class": "words", "length": 2, "pad_with": "", "truncate": True}},
              "columns": list(arrow)}
    of_arrow = [("city", "StringLookup", {"vocabulary": ["Oslo", "Rome", "Bern"]}),
                ("day", "Date", {"unit": "days", "parts": ["year", "month", "day"]}),
                ("big_text", "StringLookup", {"vocabulary": ["x", "y"]}),
                ("tags", "StringLookup", {"vocabulary": ["a", "b", "c"]})]
    for compression in ("snappy", "zstd", "gzip"):
        file = f"arrow_{compression}.parquet"
        pq.write_table(table, DIRECTORY / file, compression=compression, row_group_size=4)
        case(file, "parquet", arrow, config, of_arrow)
    pa.csv.write_csv(pa.Table.from_pandas(frame[["id", "x", "word"]]), DIRECTORY / "arrow.csv")
    case("arrow.csv", "csv", {k: same[k] for k in ("id", "x", "word")}, {}, [of_word])

    # scikit-learn
    features = np.array([[0, 1.5, 0, -2], [3, 0, 0, 0], [0, 0, 0, 0], [1e-9, 0.1, 7, 8]])
    labels = np.array([1, 0, -1, 2])
    dump_svmlight_file(features, labels, str(DIRECTORY / "sklearn.svm"), zero_based=False, comment="by scikit-learn")
    read, read_labels = load_svmlight_file(str(DIRECTORY / "sklearn.svm"), n_features=4, zero_based=False)
    case("sklearn.svm", "libsvm", {"features": [float(np.float32(v)) for v in read.toarray().ravel()],
                                   "label": read_labels.tolist()}, {"num_features": 4})

    # NumPy: the arrays of a frame.
    numbers = frame[["id", "x", "flag"]]
    np.savez(DIRECTORY / "pandas.npz", **{name: numbers[name].to_numpy() for name in numbers})
    np.savez_compressed(DIRECTORY / "pandas_packed.npz", matrix=numbers[["x"]].to_numpy(), y=labels.repeat(2)[:6])
    case("pandas.npz", "npz", {name: same[name] for name in numbers})
    case("pandas_packed.npz", "npz", {"matrix": same["x"], "y": labels.repeat(2)[:6].tolist()})

    # Expressions, filters and dates of pandas.
    eval_frame = pd.DataFrame({"a": [1.5, -2.0, 0.25, 8.0], "b": [3, -7, 2, 0], "c d": [1, 2, 3, 4]})
    texts = ["a + b * 2 - `c d`", "a / (b + 0.5)", "-a ** 2", "b % 3", "log1p(abs(a))",
             "sqrt(abs(b)) + exp(-a) + expm1(a)", "sin(a) * cos(b) + arctan(a)", "floor(a) + ceil(a)",
             "arctan2(a, b + 10)", "tanh(a) - log10(`c d`)", "2 ** `c d` / 3"]
    expressions = [{"text": t, "values": [float(v) for v in eval_frame.eval(t, engine="python")]} for t in texts]
    query_frame = frame.assign(age=[17, 18, 40, 50, 60, 18])
    queries = ["age >= 18", "age >= 18 and x > 0", "not age > 20 or id == 7", "word == 'plain' or word != 'a,b' and age > 20",
               "x < 0.2 and word == \"Zürich\"", "age != 18"]
    filters = [{"text": t, "kept": query_frame.query(t, engine="python").index.tolist()} for t in queries
               if len(query_frame.query(t, engine="python"))]
    query_frame.to_csv(DIRECTORY / "query.csv", index=False)
    query_frame.to_json(DIRECTORY / "query.jsonl", orient="records", lines=True, date_format="iso", double_precision=15)
    days = pd.date_range("1999-12-20", periods=30, freq="43h").append(
        pd.to_datetime(["1970-01-01", "1900-03-01", "2100-12-31 23:59:59", "2020-02-29 01:02:03",
                        "2016-01-01", "2018-12-31"],
                       format="ISO8601"))
    of_days = pd.Series(days)
    parts = {"seconds": [t.timestamp() for t in days], "year": of_days.dt.year, "quarter": of_days.dt.quarter,
             "month": of_days.dt.month, "week": of_days.dt.isocalendar().week, "day": of_days.dt.day,
             "day_of_year": of_days.dt.dayofyear, "weekday": of_days.dt.dayofweek, "hour": of_days.dt.hour,
             "minute": of_days.dt.minute, "second": of_days.dt.second}
    dates = {"texts": of_days.astype(str).tolist(), "parts": {k: [float(v) for v in p] for k, p in parts.items()}}
    from sklearn.utils.class_weight import compute_class_weight
    y = np.array([0] * 7 + [1] * 2 + [4] * 3)
    weights = compute_class_weight("balanced", classes=np.unique(y), y=y)
    write_json("tables.json", {
        "libraries": {"pandas": pd.__version__, "pyarrow": pa.__version__, "sklearn": sklearn.__version__,
                      "numpy": np.__version__},
        "cases": cases, "expressions": {"columns": {c: eval_frame[c].tolist() for c in eval_frame}, "cases": expressions},
        "filters": filters, "dates": dates,
        "class_weight": {"labels": y.tolist(), "weights": dict(zip(map(str, np.unique(y)), weights.tolist()))}})


def tensorflow():
    import tensorflow as tf

    def feature(values):
        if isinstance(values[0] if values else 0.0, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if values and isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    ids = [1, -(2**62), 7, 2**53 + 1, 0]
    xs = [[0.5, 1.0], [-2.0, 3.25], [0.0, 0.0], [1e10, -1e-10], [5.0, 6.0]]
    clicks = [[1, 2, 3], [], [4], [5, 6, 7, 8], [9]]
    tags = [[b"a"], [b"b", b"a"], [], [b"c", b"b", b"a"], [b"b"]]
    records = []
    for i, (x, c, t) in zip(ids, zip(xs, clicks, tags)):
        features = {"id": feature([i]), "x": feature(x), "tags": feature(t)}
        if c:
            features["clicks"] = feature(c)
        records.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    config = {"features": {"id": {"class": "tensor", "dtype": "int64"},
                           "x": {"class": "tensor", "shape": [2]},
                           "clicks": {"class": "tensor", "dtype": "int64", "shape": [3], "pad_with": -1.0, "truncate": True},
                           "tags": {"class": "words", "shape": [2], "pad_with": "", "truncate": True}}}
    parsed = tf.io.parse_example(records, {"x": tf.io.FixedLenFeature([2], tf.float32),
                                           "clicks": tf.io.RaggedFeature(tf.int64)})
    padded = parsed["clicks"].to_tensor(-1, shape=[None, 3]).numpy().ravel().tolist()
    columns = {"id": ids, "x": [float(v) for v in parsed["x"].numpy().ravel()], "clicks": padded,
               "tags": [n for t in tags for n in lookup([w.decode() for w in (t + [b"", b""])[:2]], ["a", "b", "c"])]}
    for file, compression in (("tensorflow.tfrecord", ""), ("tensorflow.tfrecord.gz", "GZIP")):
        with tf.io.TFRecordWriter(str(DIRECTORY / file), compression) as writer:
            for record in records:
                writer.write(record)
        case(file, "tfrecord", columns, config, [("tags", "StringLookup", {"vocabulary": ["a", "b", "c"]})])
    write_json("tensorflow.json", {"libraries": {"tensorflow": tf.__version__}, "cases": cases})


DIRECTORY.mkdir(exist_ok=True)
{"tables": tables, "tensorflow": tensorflow}[sys.argv[1]]()
