#!/usr/bin/env python3
"""Shards that share the rows of embeddings by hash: the weights are those of contiguous shards bit by bit, each server has
its share of a vocabulary that is sorted by frequency, and checkpoints of both kinds continue as the other one."""
import json
import os
import random
import re
import struct

import real_cluster
from real_cluster import DirectoryTestCase, program, run

KEYS = 2003
JOB = """
name: shares
seed: 1
model:
  functional:
    - Input: {name: id, shape: [1], dtype: int64, feature: id}
    - Embedding: {name: plain, inputs: id, input_dim: %(keys)d, output_dim: 8}
    - Embedding: {name: small, inputs: id, input_dim: %(keys)d, output_dim: 3, embeddings_regularizer: {L2: {l2: 0.001}}}
    - Concatenate: {name: both, inputs: [plain, small]}
    - Flatten: {name: flat, inputs: both}
    - Dense: {name: click, inputs: flat, units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: {Adagrad: {learning_rate: 0.1}}}
data:
  batch_size: 256
  train:
    csv: {path: ids.csv}
    label: label
fit: {epochs: %(epochs)d}
strategy: {mode: sync, closures_per_step: 2, partitioner: {FixedShards: {num_shards: 4, rows: %(rows)s}}}
checkpoint: {directory: checkpoints}
"""


class HashedRows(DirectoryTestCase):
    def setUp(self):
        super().setUp()
        chance = random.Random(1)
        ids = chance.choices(range(KEYS), [1 / (key + 1) for key in range(KEYS)], k=10240)
        self.write("ids.csv", "id,label\n" + "".join("%d,%d\n" % (key, key % 3 == 0) for key in ids))

    def train(self, name, rows, ps, epochs=2):
        """Trains, or continues, a run. Returns what the job printed."""
        job = self.write("job.yaml", JOB % {"keys": KEYS, "epochs": epochs, "rows": rows})
        done = run([program("cohort"), "local", "--ps", str(ps), "--workers", "2", "--run_dir", self.path(name), job],
                   environment={"COHORT_DATA_DIR": self.directory})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def weights(self, name):
        """The weights in the order of the user: their names and shapes, and their bytes."""
        done = run([program("cohort"), "export", "--format", "safetensors", "--out", self.path("weights"),
                    os.path.join(self.path(name), "checkpoints")])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.path("weights"), "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            tensors = json.loads(file.read(size))
            del tensors["__metadata__"]  # it names the run
            return tensors, file.read()

    def test_the_weights_are_the_same_and_the_shares_even(self):
        contiguous = self.train("contiguous", "contiguous", 4)
        hashed = self.train("hashed", "hash", 4)
        self.assertEqual(self.weights("hashed"), self.weights("contiguous"))
        skew = [float(re.search(r"skew ([\d.]+)", text)[1]) for text in (contiguous, hashed)]
        self.assertGreater(skew[0], 1.3, contiguous)
        self.assertLess(skew[1], 1.1, hashed)
        self.assertRegex(hashed, r"plain/embeddings +%d .* 0( |$)" % KEYS)
        shown = run([program("cohort"), "inspect", os.path.join(self.path("hashed"), "checkpoints")]).stdout
        self.assertRegex(shown, r"plain/embeddings +4/4 +500 by hash")

    def test_each_kind_continues_the_other_on_other_servers(self):
        self.train("straight", "contiguous", 2)
        expected = self.weights("straight")
        for name, first, second in (("to_hash", ("contiguous", 4), ("hash", 3)), ("to_contiguous", ("hash", 3), ("contiguous", 2)),
                                    ("hash", ("hash", 2), ("hash", 4))):
            with self.subTest(name):
                self.train(name, *first, epochs=1)
                self.train(name, *second)
                self.assertEqual(self.weights(name), expected)


if __name__ == "__main__":
    real_cluster.main(globals())
