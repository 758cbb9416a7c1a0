#!/usr/bin/env python3
"""What is wrong with ids and their weights is an error that names the table, the number and the record.

Each case is a row of a table: the model, the columns of the data, the last of seven records, and what the message holds.
"""
import json
import unittest

from bad_input_test import DATA, USAGE
from real_cluster import DirectoryTestCase, program, run

LISTS = ["Input: {name: ids, dtype: int64, ragged: true, max_length: 3}"]
WEIGHTS = ["Input: {name: w, dtype: float32, ragged: true, max_length: 3}"]
PAIR = ["Input: {name: ids, shape: [2], dtype: int64}"]
BAG = ["EmbeddingBag: {name: table, inputs: ids, input_dim: 10, output_dim: 4}"]
WEIGHTED = ["EmbeddingBag: {name: table, inputs: [ids, w], input_dim: 10, output_dim: 4}"]
ROWS = ["Embedding: {name: rows, inputs: ids, input_dim: 10, output_dim: 4}", "Flatten: {name: table, inputs: rows}"]
ANY = ["DynamicEmbedding: {name: rows, inputs: ids, output_dim: 4}", "Flatten: {name: table, inputs: rows}"]
ANY_BAG = ["DynamicEmbeddingBag: {name: table, inputs: ids, output_dim: 4}"]

# The columns of JSON lines, and a good record.
RAGGED = ("{ids: {}, y: {}}", {"ids": [1, 2], "y": 1})
BOTH = ("{ids: {}, w: {}, y: {}}", {"ids": [1, 2], "w": [1, 2], "y": 1})
FIXED = ("{ids: {dtype: int64, shape: [2]}, y: {}}", {"ids": [1, 2], "y": 1})
FOUND = (None, {"ids": [1, 2], "y": 1})

LINE = "a.jsonl: line 7: column "
HASHING = "give the column Hashing"
JSON = [
    ("a negative id of a dense table", PAIR + ROWS, FIXED, {"ids": [1, -3]},
     [LINE + '"ids"[1]: -3 does not lie in [0, 10), as layer "rows" needs it']),
    ("an id that is too large", PAIR + ROWS, FIXED, {"ids": [10, 1]},
     [LINE + '"ids"[0]: 10 does not lie in [0, 10), as layer "rows" needs it']),
    ("a negative id in a bag", LISTS + BAG, RAGGED, {"ids": [1, 2, -3]},
     [LINE + '"ids"[2]: -3 does not lie in [0, 10), as layer "table" needs it']),
    ("an id that is too large in a bag", LISTS + BAG, RAGGED, {"ids": [10]},
     [LINE + '"ids"[0]: 10 does not lie in [0, 10), as layer "table" needs it']),
    ("an empty list of one length", PAIR + ROWS, FIXED, {"ids": []}, [LINE + '"ids": is missing']),
    ("a list that is too long", LISTS + BAG, RAGGED, {"ids": [1, 2, 3, 4]}, [LINE + '"ids": has 4 numbers']),
    ("weights without ids", LISTS + WEIGHTS + WEIGHTED, BOTH, {"ids": None, "w": [1]},
     [LINE + '"w": has 1 weights, and "ids" has 0 ids']),
    ("weights of an empty list", LISTS + WEIGHTS + WEIGHTED, BOTH, {"ids": [], "w": [1]},
     [LINE + '"w": has 1 weights, and "ids" has 0 ids']),
    ("ids without weights", LISTS + WEIGHTS + WEIGHTED, BOTH, {"ids": [1], "w": None},
     [LINE + '"w": has 0 weights, and "ids" has 1 ids']),
    ("fewer weights than ids", LISTS + WEIGHTS + WEIGHTED, BOTH, {"ids": [1, 2], "w": [1]},
     [LINE + '"w": has 1 weights, and "ids" has 2 ids']),
    ("a word among ids", LISTS + BAG, RAGGED, {"ids": [1, "two"]},
     [LINE + '"ids": "two" is text, and the column holds numbers', "give it Hashing or a lookup"]),
    ("a fraction among ids", LISTS + BAG, RAGGED, {"ids": [1, 2.5]}, [LINE + '"ids": 2.5 is no value of int64']),
    ("ids as text", PAIR + ANY, FIXED, {"ids": ["12", "13"]}, [LINE + '"ids": "12" is text', "Hashing or a lookup"]),
    ("ids as text that are found", PAIR + ANY, FOUND, {"ids": ["12", "13"]}, ['column "ids" holds', "Hashing"]),
    ("an id of 64 bits without a sign", PAIR + ANY, FIXED, {"ids": [1, 2**64 - 1]},
     [LINE + '"ids": 18446744073709551615 is not an integer of 64 bits with a sign', "give it Hashing"]),
    ("such an id that is found", PAIR + ANY, FOUND, {"ids": [1, 2**64 - 1]},
     [LINE + '"ids"[1]: 1.8446744e+19 is not an integer of 64 bits with a sign, and layer "rows" reads', HASHING]),
    ("such an id in a bag", LISTS + ANY_BAG, RAGGED, {"ids": [2**63]},
     [LINE + '"ids": 9223372036854775808 is not an integer of 64 bits with a sign', "give it Hashing"]),
    ("an Input of text before a table", [PAIR[0].replace("int64", "string")] + ANY, FIXED, {},
     ['job.yaml:5: layer "rows" (DynamicEmbedding): its input "ids" has the dtype string', "Hashing or a lookup"]),
]

# The same in CSV: the fourth line.
CSV = [
    ("a negative id", ["Input: {name: ids, shape: [1], dtype: int64}"] + ROWS, "-7", ['a.csv: line 4: column "ids": -7 does not lie']),
    ("an id that is too large", ["Input: {name: ids, shape: [1], dtype: int64}"] + ROWS, "77",
     ['a.csv: line 4: column "ids": 77 does not lie in [0, 10), as layer "rows" needs it']),
    ("an empty cell", ["Input: {name: ids, shape: [1], dtype: int64}"] + ROWS, "", ['a.csv: line 4: column "ids": "" is not a number']),
    ("a word", ["Input: {name: ids, shape: [1], dtype: int64}"] + ROWS, "seven", ['a.csv: line 4: column "ids": "seven" is not a number']),
    ("an id of 64 bits without a sign", ["Input: {name: ids, shape: [1], dtype: int64}"] + ANY, str(2**64 - 1),
     ['a.csv: line 4: column "ids": 1.8446744073709552e+19 is not an integer of 64 bits with a sign', HASHING]),
    ("a negative id in a list", LISTS + BAG, "3|-7", ['a.csv: line 4: column "ids"[1]: -7 does not lie in [0, 10)']),
    ("an id that is too large in a list", LISTS + BAG, "3|70", ['a.csv: line 4: column "ids"[1]: 70 does not lie']),
    ("a word in a list", LISTS + BAG, "3|x", ['a.csv: line 4: column "ids": "x" is not a number']),
]


def job(layers, source, loss="binary_crossentropy", metrics=""):
    lines = "".join("    - %s\n" % layer for layer in layers + ["Dense: {inputs: table, units: 1, activation: sigmoid}"])
    return ("name: bad\nmodel:\n  functional:\n%scompile: {loss: %s, optimizer: adagrad%s}\ndata:\n  batch_size: 4\n  train:\n"
            "    %s\n    label: y\n" % (lines, loss, metrics, source))


class BadIds(DirectoryTestCase):
    def check(self, name, parts, text):
        with self.subTest(name):
            done = run([program("cohort"), "check", self.write("job.yaml", text)], {"COHORT_DATA_DIR": self.directory})
            self.assertEqual(done.returncode, DATA, done.stdout + done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr)

    def test_json_lines(self):
        for name, layers, (columns, good), last, parts in JSON:
            records = [good] * 6 + [{key: value for key, value in {**good, "y": 0, **last}.items() if value is not None}]
            self.write("a.jsonl", "".join(json.dumps(record) + "\n" for record in records))
            self.check(name, parts, job(layers, "json_lines: {path: a.jsonl%s}" % (", columns: " + columns if columns else "")))

    def test_csv(self):
        for name, layers, cell, parts in CSV:
            self.write("a.csv", "ids,y\n1,0\n2,1\n%s,1\n3,1\n" % cell)
            self.check(name, parts, job(layers, "csv: {path: a.csv}"))

    def test_empty_lists_are_good(self):
        self.write("a.jsonl", '{"ids": [1], "y": 1}\n{"ids": [], "y": 0}\n{"y": 0}\n{"ids": [2], "y": 1}\n')
        done = run([program("cohort"), "check", self.write("job.yaml", job(LISTS + BAG, "json_lines: {path: a.jsonl, columns: %s}" % RAGGED[0]))],
                   {"COHORT_DATA_DIR": self.directory})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_generated_clicks_need_a_number_of_records(self):
        done = run([program("cohort"), "generate", "criteo", "--output", self.path("a.csv")])
        self.assertEqual((done.returncode, "--records: say how many records to write" in done.stderr), (USAGE, True), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
