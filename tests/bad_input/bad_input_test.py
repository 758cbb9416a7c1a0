#!/usr/bin/env python3
"""Bad input, given to the programs as users give it: TF_CONFIG, flags, job files, CSV, IDX, checkpoints, tasks.

Every case is a row of a table: its name, what is given, the exit code (sysexits), and three expressions that the
message must match: what is wrong, where it is, and what should be done or what would be right.
"""
import gzip
import json
import os
import re
import shutil
import socket
import struct
import sys
import unittest
import zlib

import real_cluster
from real_cluster import DirectoryTestCase, LocalRun, RealCluster, program, run

USAGE, DATA, NO_INPUT, UNAVAILABLE, CANT_CREATE, IO, CONFIG = 64, 65, 66, 169, 73, 74, 78

CLUSTER = '"cluster": {"worker": ["127.0.0.1:4701"], "ps": ["127.0.0.1:4711"]}'
PS0 = '"task": {"type": "ps", "index": 0}'
CHIEF = '{%s, "task": {"type": "chief", "index": 0}}' % CLUSTER


def ps_list(addresses):
    return '{"cluster": {"ps": %s}, %s}' % (addresses, PS0)


# name, daemon, TF_CONFIG, what, where, todo; all end with 78.
TF_CONFIG = [
    ("unset", "ps", None, "is empty", "TF_CONFIG", r'it should be \{"cluster"'),
    ("blank", "ps", " \n", "is empty", "TF_CONFIG", r'it should be \{"cluster"'),
    ("torn", "ps", '{"cluster": ', "not valid JSON", "line 1, column 13", r"expected '\['"),
    ("a list", "ps", "[]", "a list", "TF_CONFIG", "expected a dictionary"),
    ("cluster is a list", "ps", '{"cluster": [], %s}' % PS0, "a list", "cluster", "a dictionary by task type"),
    ("job is a word", "ps", '{"cluster": {"ps": "a:1"}, %s}' % PS0, "a string", r"cluster\.ps",
     "list of addresses"),
    ("no port", "ps", ps_list('["127.0.0.1"]'), "has no port", r"cluster\.ps\[0\]", "expected host:port"),
    ("named port", "ps", ps_list('["127.0.0.1:http"]'), '"http"', r"cluster\.ps\[0\]",
     "number between 1 and 65535"),
    ("an escape", "ps", ps_list('["127.0.0.1:\\u001b[2J"]'), r'"\\x1b\[2J"', r"cluster\.ps\[0\]",
     "number between 1 and 65535"),
    ("large port", "ps", ps_list('["127.0.0.1:99999"]'), "99999", r"cluster\.ps\[0\]", "between 1 and 65535"),
    ("a URL", "ps", ps_list('["http://h:1"]'), "has a scheme", r"cluster\.ps\[0\]", "expected host:port"),
    ("bare IPv6", "ps", ps_list('["::1:4711"]'), "more than one colon", r"cluster\.ps\[0\]", "in brackets"),
    ("a number", "ps", ps_list("[4711]"), "a number", r"cluster\.ps\[0\]", 'an address "host:port"'),
    ("one address twice", "ps", ps_list('["127.0.0.1:1", "127.0.0.1:1"]'), r"address of cluster\.ps\[0\] too",
     r"cluster\.ps\[1\]", "its own"),
    ("unknown job", "ps", '{"cluster": {"pss": ["127.0.0.1:1"]}, %s}' % PS0, "is not a task type", "cluster",
     'did you mean "ps"'),
    ("chief and master", "ps", '{"cluster": {"chief": ["a:1"], "master": ["a:2"]}, %s}' % PS0,
     "name the same task", r"cluster\.master", "keep one"),
    ("sparse index", "ps", '{"cluster": {"ps": {"one": "127.0.0.1:1"}}, %s}' % PS0, "not a number",
     r'cluster\.ps\["one"\]', "counted 0, 1"),
    ("no task", "ps", "{%s}" % CLUSTER, "is missing", "task", r'needs \{"type": "ps", "index": n\}'),
    ("no type", "ps", '{%s, "task": {"index": 0}}' % CLUSTER, "is missing", r"task\.type", "chief, worker, ps"),
    ("unknown type", "ps", '{%s, "task": {"type": "pss", "index": 0}}' % CLUSTER, "is not a task type",
     r"task\.type", 'did you mean "ps"'),
    ("index beyond", "ps", '{%s, "task": {"type": "ps", "index": 7}}' % CLUSTER, "has no task 7", r"task\.index",
     "it has 1, counted from 0"),
    ("negative index", "ps", '{%s, "task": {"type": "ps", "index": -1}}' % CLUSTER, "-1 is negative",
     r"task\.index", "counted 0, 1"),
    ("index of many digits", "ps", '{%s, "task": {"type": "ps", "index": 99999999999999999999}}' % CLUSTER,
     "is not a task index", r"task\.index", "counted 0, 1"),
    ("huge index", "ps", '{%s, "task": {"type": "ps", "index": 18446744073709551615}}' % CLUSTER, "too large",
     r"task\.index", "9223372036854775807"),
    ("another daemon's", "worker", "{%s, %s}" % (CLUSTER, PS0), "names a ps", r"task\.type", "start cohort-ps"),
    ("own job absent", "ps", '{"cluster": {"worker": ["127.0.0.1:1"]}, %s}' % PS0, r"cluster\.ps is missing",
     r"task\.type", "add it, a list"),
    ("a host that nobody knows", "ps", ps_list('["no.such.host.invalid:4711"]'), "cannot be resolved",
     r'the host "no\.such\.host\.invalid"', "--allow_insecure"),
    ("beyond loopback", "ps", ps_list('["10.0.0.1:4711"]'), "plaintext", "4711", "--allow_insecure"),
]

RECOMMENDER = os.path.join(real_cluster.EXAMPLES, "recommender.yaml")
KERAS_EXAMPLE = os.path.join(real_cluster.EXAMPLES, "keras_json")
# name, command line, exit code, what, where, todo. Words in capitals stand for files of the test's directory.
FLAGS = [
    ("unknown flag", ["cohort-ps", "--thread", "3"], USAGE, "unknown flag", "--thread", 'mean "--threads"'),
    ("unknown flag of a command", ["cohort", "local", "--worker", "3", "JOB"], USAGE, "unknown flag", "--worker",
     'mean "--workers"'),
    ("unknown flag of the chief", ["cohort-chief", "--checkpointdir", "x", "JOB"], USAGE, "unknown flag",
     "--checkpointdir", 'mean "--checkpoint_dir"'),
    ("unknown flag of the evaluator", ["cohort-evaluator", "--latest"], USAGE, "unknown flag", "--latest",
     "--help shows"),
    ("unknown command", ["cohort", "chekc"], USAGE, "no command", "chekc", 'mean "check"'),
    ("an unknown format", ["cohort", "export", "--format", "pickle", "DIR"], USAGE, "pickle", "--format", "safetensors"),
    ("a flag to come", ["cohort-ps", "--trace_file", "a"], USAGE, "a trace of a step is not supported yet", "--trace_file",
     "--help shows"),
    ("no command", ["cohort"], USAGE, "command is missing", "cohort", "local, ctl, certs, check, profile, predict, doctor, tf-config, inspect"),
    ("a word for a number", ["cohort-ps", "--threads", "many"], USAGE, '"many" is not a number', "--threads",
     "--help shows"),
    ("an escape", ["cohort-ps", "--\x1b[31m"], USAGE, "unknown flag", r"--\\x1b\[31m", "--help shows"),
    ("escapes in a path", ["cohort", "inspect", "DIR/\x1b[2J\u202e\u00fc"], NO_INPUT, "does not exist",
     r"\\x1b\[2J\\u202e\u00fc", "does not exist"),
    ("no value", ["cohort-worker", "--threads"], USAGE, "value is missing", "--threads", "--help shows"),
    ("an empty number", ["cohort-ps", "--threads", ""], USAGE, "value is missing", "--threads", "--help shows"),
    ("negative threads", ["cohort-ps", "--threads", "-1"], USAGE, "negative", "--threads", "0 takes"),
    ("a port too large", ["cohort-ps", "--admin_port", "70000"], USAGE, "70000", "--admin_port",
     "between 0 and 65535"),
    ("unknown level", ["cohort-ps", "--log_level", "loud"], USAGE, '"loud"', "--log_level", "info, warning"),
    ("is only a port", ["cohort-ps", "--bind", "4711"], USAGE, "is only a port", "--bind", r"0\.0\.0\.0:4711"),
    ("bind for everybody", ["cohort-ps", "--bind", "0.0.0.0:4711"], CONFIG, "plaintext", r"0\.0\.0\.0:4711",
     "--allow_insecure"),
    ("no job", ["cohort", "check"], USAGE, "required", r"JOB\.yaml", "--help shows"),
    ("two jobs", ["cohort", "check", "a", "b"], USAGE, "unexpected argument", '"b"', "--help shows"),
    ("no servers", ["cohort", "check", "--ps", "0", "JOB"], USAGE, "--ps", "cohort", "between 1 and 1000"),
    ("servers without end", ["cohort", "check", "--ps", "1000000000", "JOB"], USAGE, "1000000000", "--ps",
     "between 1 and 1000"),
    ("an endless job", ["cohort", "check", "/dev/zero"], DATA, "more than 67108864 bytes", "/dev/zero:1", "the limit of a job"),
    ("negative threads of an evaluation", ["cohort", "evaluate", "--threads", "-3", "DIR"], USAGE, "-3", "--threads",
     "between 0 and"),
    ("negative workers", ["cohort", "local", "--workers", "-3", "JOB"], USAGE, "-3", "--workers", "between 1 and"),
    ("no such transport", ["cohort", "local", "--transport", "udp", "JOB"], USAGE, '"udp"', "--transport",
     "neither unix nor tcp"),
    ("a flag for nobody", ["cohort", "local", "--task_flag", "x=--y", "JOB"], USAGE, '"x=--y"', "--task_flag",
     "TASK=FLAG"),
    ("negative timeout", ["cohort-chief", "JOB", "--task_timeout_s", "-1"], USAGE, "negative", "--task_timeout_s",
     "from 0 to"),
    ("an endless timeout", ["cohort-chief", "JOB", "--task_timeout_s", "1e300"], USAGE, "1e300 is too long",
     "--task_timeout_s", "from 0 to 1000000000"),
    ("no time", ["cohort-worker", "--chief_wait_s", "nan"], USAGE, "nan is not a time", "--chief_wait_s", "seconds"),
    ("negative wait", ["cohort-ps", "--chief_wait_s", "-1"], USAGE, "-1 is negative", "--chief_wait_s", "from 0 to"),
    ("infinite wait", ["cohort-ps", "--chief_wait_s", "inf"], USAGE, "inf is too long", "--chief_wait_s",
     "from 0 to"),
    ("no grace", ["cohort", "local", "--grace_s", "nan", "JOB"], USAGE, "nan is not a time", "--grace_s", "from 0 to"),
    ("no pause", ["cohort-evaluator", "--checkpoint_dir", "DIR", "--poll_s", "0"], USAGE, "more than 0 seconds",
     "--poll_s", "seconds"),
    ("no checkpoints named", ["cohort-evaluator"], USAGE, "is missing", "--checkpoint_dir", "directory where"),
    ("no directory anywhere", ["cohort-chief", "NODIR"], USAGE, "no checkpoint directory", "chief",
     "give --checkpoint_dir"),
    ("absent job", ["cohort-chief", "DIR/none.yaml"], NO_INPUT, "No such file", r"none\.yaml", "opened"),
    ("absent checkpoint", ["cohort", "inspect", "DIR/none"], NO_INPUT, "does not exist", "none", "does not exist"),
    ("absent checkpoint of an evaluation", ["cohort", "evaluate", "DIR/none"], NO_INPUT, "does not exist", "none",
     "does not exist"),
    ("no checkpoint", ["cohort", "evaluate", "DIR"], NO_INPUT, "holds no checkpoint", "DIR", "name a ckpt-"),
    ("evaluator without data", ["cohort", "local", "--evaluator", "UNVALIDATED"], DATA, "no validation set",
     r"unvalidated\.yaml:\d+", "give it data.validation"),
    # Unlike a full disk, this is not tried again.
    ("small servers", ["cohort", "local", "--restart", "--ps", "1", "--workers", "1", "--run_dir", "DIR/big", "BIG"],
     IO, "exited with 74", "ps:0 would hold", "use more parameter servers"),
    ("log file", ["cohort-ps", "--log_file", "/dev/null/x"], CANT_CREATE, "cannot be opened", "/dev/null/x",
     "Not a directory"),
    ("apply log", ["cohort-ps", "--apply_log", "/dev/null/x"], CANT_CREATE, "Not a directory", "/dev/null/x",
     "--apply_log"),
    ("full disk", ["cohort-ps", "--apply_log", "/dev/full"], IO, "No space left", "/dev/full", "--apply_log"),
    ("socket directory", ["cohort-ps", "--unix_socket_dir", "/dev/null/x"], CANT_CREATE, "cannot listen",
     "/dev/null/x", "cannot write to its directory"),
    ("no directory for the log", ["cohort-ps", "--log_file", "DIR/none/x"], CANT_CREATE, "cannot be opened", "none",
     "No such file or directory"),
    ("long socket directory", ["cohort-ps", "--unix_socket_dir", "/tmp/" + "x" * 120], USAGE, "has 125 characters",
     "--unix_socket_dir", "at most"),
    ("bind to nobody", ["cohort-ps", "--bind", "nonsense.invalid"], USAGE, "cannot be resolved", "--bind",
     "such as 127"),
    ("log directory", ["cohort-chief", "JOB", "--checkpoint_dir", "DIR/c", "--log_dir", "/dev/null/x"],
     CANT_CREATE, "cannot be created", "/dev/null/x", "Not a directory"),
    ("checkpoint directory", ["cohort-chief", "JOB", "--checkpoint_dir", "/dev/null/x"], CANT_CREATE,
     "cannot be created", "/dev/null/x", "Not a directory"),
]

# name, what is replaced in recommender.yaml, by what, what, where, todo; all end with 65.
JOBS = [
    ("unknown key", "batch_size", "batchsize", 'unknown key "batchsize"', "job.yaml:21", '"batch_size"'),
    ("unknown section", "model:", "modle:", 'unknown key "modle"', "job.yaml:8", 'mean "model"'),
    ("key twice", "seed: 7", "seed: 7\nseed: 8", "is given twice", "job.yaml:7", "seed"),
    ("not YAML", "name: recommender", "name: [recommender", "not YAML", "job.yaml:", "end of sequence"),
    ("unknown layer", "GlobalAveragePooling1D", "GlobalAverage1D", "no layer", "job.yaml:12", "there are Activation"),
    ("a layer of Python", "GlobalAveragePooling1D", "Lambda", "not supported: a function of Python", "job.yaml:12",
     "ops"),
    ("unknown activation", "sigmoid", "sigmoit", "no activation", "job.yaml:13", 'mean "sigmoid"'),
    ("units missing", "units: 1, ", "", "needs its argument", "job.yaml:13", "units"),
    ("units negative", "units: 1", "units: -4", "-4", "job.yaml:13", "units must be at least 1"),
    ("shape of another column", "shape: [3]", "shape: [4]", r"shape is \[4\]", "job.yaml:10", r"has \[3\]"),
    ("no such column", "feature: features", "feature: words", '"words"', "job.yaml:10", "columns are features"),
    ("unknown loss", "binary_crossentropy", "binary_crossentrpy", "no loss", "job.yaml:16", "did you mean"),
    ("loss of another shape", "units: 1", "units: 3", "the prediction is", "job.yaml:16", "the label is"),
    ("unknown metric", "[accuracy]", "[acuracy]", "no metric", "job.yaml:18", 'mean "accuracy"'),
    ("unknown optimizer", "RMSprop: ", "RMSProp2: ", "no optimizer", "job.yaml:17", "Adam, AdamW, Adamax, Ftrl"),
    ("unknown argument", "learning_rate", "lr", 'no argument "lr"', "job.yaml:17", "it has learning_rate"),
    ("a word for a number", "learning_rate: 0.1", "learning_rate: fast", "fast", "job.yaml:17",
     "learning_rate must be a number"),
    ("a schedule", "learning_rate: 0.1", "learning_rate: {ExponentialDecay: {decay_steps: 5}}", "ExponentialDecay",
     "job.yaml:17", "needs its argument `initial_learning_rate`"),
    ("a call", "binary_crossentropy", "BinaryCrossentropy(from_logits=True)", "compile.loss", "job.yaml:16",
     r"{BinaryCrossentropy: {from_logits: true}}"),
    ("a string for a mapping", "generator: {name: recommender, records: 6400, seed: 1}", "csv: a.csv", "must be a mapping",
     "job.yaml:24", r"csv: {path: a\.csv}"),
    ("no source", "    generator: {name: recommender, records: 6400, seed: 1}\n", "", "needs a source",
     "job.yaml:23", "there are csv, generator, idx"),
    ("unknown generator", "name: recommender, records: 6400", "name: recommendr, records: 6400", "must be recommender",
     "job.yaml:24", 'mean "recommender"'),
    ("unknown source", "generator: {name", "genrator: {name", 'unknown key "genrator"', "job.yaml:24", 'mean "generator"'),
    ("unknown class of a source", "generator: {name: recommender, records: 6400, seed: 1}", "source: {tsv: {path: a}}",
     "no source", "job.yaml:24", "there are csv, generator, idx"),
    ("unknown argument of a source", "records: 6400", "record: 6400", 'no argument "record"', "job.yaml:24",
     'mean "records"'),
    ("unknown transform", '{column: label, equals: "yes"}', "{column: label, Eqals: {value: y}}", 'unknown key "Eqals"',
     "job.yaml:29", 'mean "equals"'),
    ("a transform to come", '{column: label, equals: "yes"}', "{column: label, MelSpectrogram: {}}",
     "not supported yet", "job.yaml:29", "supported: AugMix, AutoContrast"),
    ("two transforms in one", "lookup: string", "lookup: string\n        scale: 2", "exclude each other", "job.yaml:",
     "one class"),
    ("transform of nothing", "column: features", "column: featurs", 'no column "featurs"', "job.yaml:23",
     "there are features"),
    ("label of nothing", "label: label", "label: lable", '"lable"', "job.yaml:23", "it has features, label"),
    ("a validation set beyond", "records: 1600, seed: 2}", "records: 1600, seed: 2}\n    skip: 9999", "skip 9999",
     "job.yaml:31", "the 1600 records"),
    ("no epochs", "epochs: 4", "epochs: 0", "fit.epochs", "job.yaml:35", "at least 1"),
    ("a strategy for a mode", "mode: async", "mode: mirrored", "a strategy and not a mode", "job.yaml:38",
     "name: mirrored"),
    ("a strategy of other hardware", "mode: async", "name: TPUStrategy", "no strategy tpu", "job.yaml:38",
     "choose mirrored"),
    ("unknown partitioner", "FixedShards", "FixedShard", "no partitioner", "job.yaml:39", "FixedShards, MaxSize"),
    ("a time too long", "mode: async", "task_timeout_s: 1e300", r"not 1e\+300", "job.yaml:38", "at most 1000000000"),
    ("a negative time", "mode: async", "task_timeout_s: -1", "negative", "job.yaml:38", "task_timeout_s"),
    ("no time", "mode: async", "task_timeout_s: .nan", r'"\.nan"', "job.yaml:38", "must be a number"),
    ("escapes", "name: recommender", 'name: "\\e]0;x\\a\\x9b"', r'not "\\x1b\]0;x\\x07\\u009b"', "job.yaml:5",
     "letters, digits"),
    ("a path for a name", "name: recommender", "name: a/b", '"a/b"', "job.yaml:5", "letters, digits"),
]

# name, what is replaced in model.json, by what, what, where, todo; all end with 65.
KERAS_JSON = [
    ("not JSON", '"layers": [', '"layers": ', "not JSON", r"model\.json: not JSON: line \d+, column \d+", "expected"),
    ("a list", "{", "[{", "not JSON", r"line 435, column 1", "expected"),
    ("no model", '"class_name": "Functional"', '"class_name": "Embedding"', "is no model of Keras", r"model\.json",
     r"model\.to_json\(\) writes"),
    ("a layer of Python", '"class_name": "Embedding"', '"class_name": "Lambda"', "holds Python code",
     r'model\.json: layers\[1\] "embedding" \(Lambda\)', "keras.ops"),
    ("a layer of Python in a nested model", '"class_name": "GlobalAveragePooling1D"', '"class_name": "Lambda"',
     "holds Python code", r'"body" > layers\[\d\] "global_average_pooling1d" \(Lambda\)', "keras.ops"),
    ("an argument to come", '"mask_zero": false', '"lora_rank": 4', "`lora_rank` of Embedding is not supported yet",
     r'layers\[1\] "embedding"', "lora_rank"),
    ("units negative", '"units": 16', '"units": -16', "not -16", r'"body" > layers\[\d\] "dense"', "at least 1"),
    ("a policy to come", '"name": "float32"', '"name": "mixed_float16"', "mixed_float16", r"layers\[1\]",
     "supported: float32, float64"),
    ("an escape", '"class_name": "Embedding"', '"class_name": "\\u001b[2J"', r'"\\x1b\[2J"|\\x1b\[2J', r"layers\[1\]",
     "there are"),
    ("a reference to nothing", '"embedding",\n          0,', '"nobody",\n          0,', 'no layer "nobody"',
     r'layers\[2\] "body"', "there is no layer"),
    ("a loss to come", '"loss": "binary_crossentropy"', '"loss": "circle"', "not supported yet", r"compile_config\.loss",
     "supported: BinaryCrossentropy"),
    ("a schedule", '"learning_rate": 0.009999999776482582', '"learning_rate": {"class_name": "CosineDecay", "config": {}}',
     "CosineDecay needs its argument", r"compile_config\.optimizer"),
]

CSV_JOB = """name: c
model:
  sequential:
    - Input: {shape: [1], feature: age}
    - Dense: {units: 1}
compile: {loss: mse}
data:
  train:
    csv: {path: a.csv}
    transforms:
      - {column: age}
      - {column: word, lookup: string}
      - {column: income, equals: yes}
    label: income
"""
FIFO = "FIFO"  # in place of the file
ROWS = b"age,word,income\n1,a,yes\n2,b,no\n"
# name, the file, what is replaced in the job, by what, exit code, what, where, todo.
CSV = [
    ("empty", b"", "", "", DATA, "is empty", r"a\.csv", "a header is expected"),
    ("header only", b"age,word,income\n", "", "", DATA, "no records", r"a\.csv", "records"),
    ("too few fields", b"age,word,income\n1,a\n", "", "", DATA, "has 2 fields", "line 2", "3 are expected"),
    ("no number", ROWS + b"old,c,no\n", "", "", DATA, '"old" is not a number', 'line 4: column "age"', "number"),
    ("too large a number", ROWS + b"1e999,c,no\n", "", "", DATA, "1e999", "line 4", "number"),
    ("no number in a column that no transform reads", b"age,word,income\nold,a,yes\n", "      - {column: age}\n", "",
     DATA, '"old" is not a number', 'line 2: column "age"', "job.yaml:4"),
    ("a byte order mark and no number", b"\xef\xbb\xbfage,word,income\nold,a,yes\n", "", "", DATA,
     '"old" is not a number', 'line 2: column "age"', r"a\.csv"),
    ("column absent", b"age,income\n1,yes\n", "", "", DATA, 'no column "word"', "job.yaml:8", "age, income"),
    ("open quote", b'age,word,income\n1,"a,yes\n', "", "", DATA, "never closed", "line 2", "quote that opens"),
    ("two columns of a name", b"age,age,income\n1,2,yes\n", "", "", DATA, "two columns", r"a\.csv", '"age"'),
    ("not text", b"age,word,income\n1,a\0b,yes\n", "", "", DATA, "NUL byte", "line 2: field 2", "not text"),
    ("rows beyond", ROWS, "    csv:", "    skip: 5\n    csv:", DATA, "skip 5", "job.yaml:8", "2 records"),
    ("another file", ROWS, "a.csv", "a.csv, sha256: abcd", DATA, "has sha256", r"a\.csv", "correct `sha256`"),
    ("a FIFO", FIFO, "", "", DATA, "is a FIFO", r"a\.csv", "not a regular file"),
    ("absent", None, "", "", NO_INPUT, "does not exist", r"a\.csv", "set COHORT_DATA_DIR"),
    ("a directory", ROWS, "path: a.csv", "path: .", DATA, "is a directory", "not a regular file", "data file"),
]

IDX_JOB = """name: i
model:
  sequential:
    - Input: {shape: [2, 2], feature: image}
    - Flatten
    - Dense: {units: 2}
compile: {loss: sparse_categorical_crossentropy}
data:
  train:
    idx: {images: images.idx, labels: labels.idx}
    label: label
"""
IMAGES = bytes([0, 0, 8, 3]) + struct.pack(">3I", 3, 2, 2) + bytes(12)
LABELS = bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + bytes(3)
# name, images, labels, what, where, todo; all end with 65.
IDX = [
    ("empty", b"", LABELS, "0 bytes", "images.idx", "IDX header"),
    ("torn header", IMAGES[:10], LABELS, "ends at byte 10", "images.idx", "3 dimensions"),
    ("torn data", IMAGES[:-3], LABELS, "9 bytes follow", "after byte 16", r"\[3, 2, 2\] elements of 1 bytes are expected"),
    ("too long", IMAGES + b"xx", LABELS, "14 bytes follow", "after byte 16", "are expected"),
    ("a picture", b"\x89PNG\r\n\x1a\n" * 4, LABELS, "bytes 89 50", "images.idx", "an IDX file starts with 00 00"),
    ("huge", bytes([0, 0, 8, 3]) + b"\xff" * 12, LABELS, "4294967295", "after byte 16", "are expected"),
    ("no dimension", bytes([0, 0, 8, 0]), LABELS, "at least one dimension", "byte 3", "an IDX file of records has"),
    ("other counts", IMAGES, bytes([0, 0, 8, 1]) + struct.pack(">I", 2) + bytes(2), "3 records", "images.idx",
     "labels.idx has 2"),
    ("torn gzip", gzip.compress(IMAGES)[:-9], LABELS, "ends too early", "images.idx", "at byte"),
    ("damaged gzip", gzip.compress(IMAGES)[:-8] + bytes(8), LABELS, "damaged", "images.idx", "incorrect data check"),
]


def fifo_in(name):
    """Replaces a file by a FIFO that has no writer."""
    def apply(directory):
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            os.remove(path)
        os.mkfifo(path)
    return apply


def flip(at):
    def change(data):
        data[at] ^= 1
        return data
    return change


def with_crc(change):
    """Changes the manifest's JSON and writes the checksum that fits."""
    def apply(directory):
        path = os.path.join(directory, "manifest.json")
        with open(path, encoding="utf-8") as f:
            manifest = json.load(f)
        change(manifest)
        data = json.dumps(manifest).encode()
        with open(path, "wb") as f:
            f.write(data)
        with open(path + ".crc", "w", encoding="utf-8") as f:
            f.write("%08x %d\n" % (zlib.crc32(data), len(data)))
    return apply


def edit(name, change):
    def apply(directory):
        path = os.path.join(directory, name)
        with open(path, "rb") as f:
            data = bytearray(f.read())
        with open(path, "wb") as f:
            f.write(change(data))
    return apply


# name, change of the checkpoint's directory, what, where; all end with 65 and the advice to take another one.
CHECKPOINTS = [
    ("damaged manifest", edit("manifest.json", flip(100)), "has checksum and size", "manifest.json"),
    ("torn manifest", edit("manifest.json", lambda d: d[:200]), "has checksum and size", "manifest.json"),
    ("no checksum", lambda d: os.remove(os.path.join(d, "manifest.json.crc")), "checksum cannot be read",
     r"manifest\.json\.crc"),
    ("manifest of text", with_crc(lambda m: m.clear()), "no format version", "manifest.json"),
    ("a file elsewhere", with_crc(lambda m: m["files"][0].update(name="../../etc/passwd")), "passwd",
     "manifest.json"),
    ("damaged shard", edit("ps-0.safetensors", flip(-3)), "has checksum", r"ps-0\.safetensors"),
    ("torn shard", edit("ps-0.safetensors", lambda d: d[:-5]), "the manifest says", r"ps-0\.safetensors"),
    ("a FIFO for a shard", fifo_in("ps-0.safetensors"), "is a FIFO, not a regular file", r"ps-0\.safetensors"),
    ("a FIFO for the manifest", fifo_in("manifest.json"), "is a FIFO, not a regular file", r"manifest\.json"),
    ("no shard", lambda d: os.remove(os.path.join(d, "ps-1.safetensors")), "No such file", r"ps-1\.safetensors"),
]


class BadInput(DirectoryTestCase):
    def check(self, name, done, code, *says):
        """Checks one row: the exit code, and that stderr matches every expression."""
        with self.subTest(name):
            self.assertEqual(done.returncode, code, done.stdout[-500:] + done.stderr)
            for expression in says:
                self.assertRegex(done.stderr, expression)
            # Control characters are escaped. (U+FFFD stands for bytes that are not UTF-8.)
            self.assertNotRegex(done.stdout + done.stderr, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ufffd]")

    def test_tf_config(self):
        for name, daemon, text, *says in TF_CONFIG:
            environment = {} if text is None else {"TF_CONFIG": text}
            self.check(name, run([program("cohort-" + daemon)], environment), CONFIG, *says)

    def test_flags(self):
        with open(RECOMMENDER, encoding="utf-8") as f:
            job = f.read()
        self.write("nodir.yaml", job.split("\ncheckpoint:")[0])
        words = {"JOB": RECOMMENDER, "NODIR": self.path("nodir.yaml"),
                 "BIG": self.write("big.yaml", job.replace("input_dim: 8", "input_dim: 2000000000000")),
                 "UNVALIDATED": self.write("unvalidated.yaml", CSV_JOB)}
        for name, command, code, *says in FLAGS:
            port, = real_cluster.free_ports(1)
            role = command[0].removeprefix("cohort-")
            config = CHIEF if role == "chief" else (
                '{"cluster": {"ps": ["127.0.0.1:%d"], "worker": ["127.0.0.1:1"]}, "task": '
                '{"type": "%s", "index": 0}}' % (port, role))
            environment = {} if role in ("cohort", "evaluator") else {"TF_CONFIG": config}
            command = [words.get(w, w.replace("DIR", self.directory) if w.startswith("DIR") else w)
                       for w in command]
            says = [s.replace("DIR", self.directory) for s in says]
            self.check(name, run([program(command[0]), *command[1:]], environment, cwd=self.directory), code,
                       *says)

    def test_help_and_version_everywhere(self):
        for name in ("cohort", "cohort-ps", "cohort-worker", "cohort-chief", "cohort-evaluator",
                     "cohort-custom-loop"):
            version = run([program(name), "--version"])
            self.assertEqual(version.returncode, 0)
            self.assertRegex(version.stdout, r"^%s \d+\.\d+\.\d+\n$" % name)
            shown = run([program(name), "--help"])
            self.assertEqual(shown.returncode, 0)
            self.assertIn("--help", shown.stdout)
        helps = {}
        for command in ("local", "check", "inspect", "evaluate", "run"):
            shown = run([program("cohort"), command, "--help"])
            self.assertEqual(shown.returncode, 0, command)
            helps[command] = set(re.findall(r"--[a-z_]+", shown.stdout))
        for name in ("cohort-ps", "cohort-worker", "cohort-chief", "cohort-evaluator"):
            flags = re.findall(r"^ +(?:-h,)?(--[a-z_]+)", run([program(name), "--help"]).stdout, flags=re.M)
            self.assertLessEqual(set(flags) - {"--version"}, helps["run"], name)

    def job(self, name, text, code, says):
        path = self.write("job.yaml", text)
        done = run([program("cohort"), "check", path], {"COHORT_DATA_DIR": self.directory})
        self.check(name, done, code, *says)

    def test_job_files(self):
        with open(RECOMMENDER, encoding="utf-8") as f:
            good = f.read()
        for name, old, new, *says in JOBS:
            self.assertIn(old, good, name)
            self.job(name, good.replace(old, new, 1), DATA, says)
        self.job("empty file", "", DATA, ["the file is empty", "job.yaml:1", "empty"])
        self.job("no mapping", "- a\n", DATA, ["a list", "job.yaml:1", "must be a mapping"])
        self.job("noise", bytes(range(128, 256)), DATA, ["is not UTF-8", "job.yaml:1", "save the file as UTF-8"])

    def test_models_of_keras(self):
        with open(os.path.join(KERAS_EXAMPLE, "model.json"), encoding="utf-8") as f:
            good = f.read()
        with open(os.path.join(KERAS_EXAMPLE, "recommender.yaml"), encoding="utf-8") as f:
            job = f.read()
        for name, old, new, *says in KERAS_JSON:
            self.assertIn(old, good, name)
            self.write("model.json", good.replace(old, new, 1))
            self.job(name, job, DATA, says)
        os.remove(self.path("model.json"))
        self.job("absent", job, NO_INPUT, ["cannot be opened", r"job\.yaml:9: .*model\.json", "No such file"])

    def test_csv_files(self):
        for name, data, old, new, code, *says in CSV:
            if data is None:
                os.remove(self.path("a.csv"))
            elif data == FIFO:
                fifo_in("a.csv")(self.directory)
            else:
                self.write("a.csv", data)
            self.assertIn(old, CSV_JOB, name)
            if code == NO_INPUT:  # `check` accepts missing data; a run does not
                path = self.write("job.yaml", CSV_JOB.replace(old, new))
                done = run([program("cohort"), "local", "--run_dir", self.path("run"), path],
                           {"COHORT_DATA_DIR": self.directory})
                self.check(name, done, code, *says)
            else:
                self.job(name, CSV_JOB.replace(old, new), code, says)

    def test_idx_files(self):
        for name, images, labels, *says in IDX:
            self.write("images.idx", images)
            self.write("labels.idx", labels)
            self.job(name, IDX_JOB, DATA, says)

    def test_checkpoints(self):
        trained = LocalRun(self.path("run"), RECOMMENDER, ps=2, workers=2)
        self.assertEqual(trained.code, 0, trained.err)
        whole = self.path("run/checkpoints/ckpt-1-1-4")
        for name, change, *says in CHECKPOINTS:
            shutil.rmtree(self.path("damaged"), ignore_errors=True)
            shutil.copytree(whole, self.path("damaged/ckpt-1-1-4"))
            change(self.path("damaged/ckpt-1-1-4"))
            for command in ("inspect", "evaluate"):
                done = run([program("cohort"), command, self.path("damaged")])
                self.check(name + ", " + command, done, DATA, "holds no whole checkpoint", "an older one", *says)
                done = run([program("cohort"), command, self.path("damaged/ckpt-1-1-4")])
                self.check(name + ", by name, " + command, done, DATA, re.escape(self.path("damaged/ckpt-1-1-4")),
                           *says)
        for command in (["--help"], ["check", RECOMMENDER], ["inspect", whole], ["evaluate", whole]):
            full = run(["sh", "-c", 'exec "$0" "$@" > /dev/full', program("cohort"), *command])
            self.check("full output, " + command[0], full, IO, "cannot write to the standard output", "No space left")
        # If an older checkpoint is whole, it is taken, and the error about the newer one is printed.
        shutil.copytree(self.path("run/checkpoints/ckpt-1-1-3"), self.path("damaged/ckpt-1-1-3"))
        done = run([program("cohort"), "inspect", self.path("damaged")])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"refused: .*ckpt-1-1-4(.|\n)*checkpoint: .*ckpt-1-1-3")
        # A checkpoint of a newer Cohort is not damaged: nobody falls back to the older one.
        shutil.rmtree(self.path("damaged/ckpt-1-1-4"))
        shutil.copytree(self.path("run/checkpoints/ckpt-1-1-4"), self.path("damaged/ckpt-1-1-4"))
        with_crc(lambda m: m.update(format_version=99, cohort_version="7.1"))(self.path("damaged/ckpt-1-1-4"))
        for command in ("inspect", "evaluate"):
            done = run([program("cohort"), command, self.path("damaged")])
            self.check("a format to come, " + command, done, DATA, re.escape(self.path("damaged/ckpt-1-1-4")),
                       "has format version 99", "use Cohort 7.1 or newer")
        self.check_the_directory_of_another_job()

    def check_the_directory_of_another_job(self):
        with open(RECOMMENDER, encoding="utf-8") as f:
            other = self.write("other.yaml", f.read().replace("seed: 7", "seed: 8"))
        for name, job, what in (("another job", other, r"checkpoints of another job(.|\n)*seed: 7 -> 8 \(\S*other\.yaml:\d+\)"),
                                ("a finished job", RECOMMENDER, "this job is finished")):
            done = run([program("cohort"), "local", "--run_dir", self.path("again"), "--checkpoint_dir",
                        self.path("run/checkpoints"), job])
            self.check(name, done, CONFIG, what, re.escape(self.path("run/checkpoints")), "another checkpoint directory")

    def test_tasks(self):
        taken = self.enterContext(socket.socket())
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        self.check("a taken port", run([program("cohort-ps")], {"TF_CONFIG": ps_list('["127.0.0.1:%d"]' % port)}),
                   CANT_CREATE, "is taken", "127.0.0.1:%d" % port, "choose another")
        missing = run([program("cohort-chief"), RECOMMENDER, "--checkpoint_dir", self.path("c"), "--log_dir",
                       self.path("l"), "--task_timeout_s", "0.2"], {"TF_CONFIG": CHIEF})
        self.check("missing tasks", missing, UNAVAILABLE, r"waiting for ps:0 \(127\.0\.0\.1:4711\)",
                   r"worker:0 \(127\.0\.0\.1:4701\)", "start what is missing")
        with open(RECOMMENDER, encoding="utf-8") as f:
            small = self.write("small.yaml", f.read().replace("input_dim: 8", "input_dim: 5"))
        ran = LocalRun(self.path("run"), small, ps=1, workers=1)
        self.assertEqual(ran.code, DATA, ran.err)
        for says in (r'record \d+: column "features"\[\d\]: [567] does not lie', 'layer "embedding"', "input_dim"):
            self.assertRegex(ran.err, says)

    def test_a_failed_chief_leaves_tasks_that_wait_and_a_next_one_takes_them(self):
        with open(RECOMMENDER, encoding="utf-8") as f:
            small = self.write("small.yaml", f.read().replace("input_dim: 8", "input_dim: 5"))
        with RealCluster(self.directory, ps=1, workers=1) as cluster:
            cluster.start_servers_and_workers()
            flags = ["--checkpoint_dir", self.path("bad"), "--log_dir", self.path("l")]
            cluster.start("chief", 0, [small, *flags])
            self.assertEqual(cluster.wait("chief"), DATA)
            for role in ("ps", "worker"):
                real_cluster.until(role + " does not say that it waits",
                                   lambda role=role: "waiting for chief" in cluster.text(role))
                self.assertTrue(cluster.running(role))
            flags[1] = self.path("good")
            cluster.start("chief", 0, [RECOMMENDER, *flags])
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.text("chief"))

    def test_there_are_sixty_cases(self):
        tables = {"TF_CONFIG": TF_CONFIG, "flags": FLAGS, "jobs": JOBS, "JSON of Keras": KERAS_JSON, "CSV": CSV, "IDX": IDX,
                  "checkpoints": CHECKPOINTS}
        print(", ".join("%d %s" % (len(t), name) for name, t in tables.items()), file=sys.stderr)
        self.assertGreaterEqual(sum(map(len, tables.values())), 60)
        for name, table in tables.items():
            self.assertEqual(len({row[0] for row in table}), len(table), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
