#!/usr/bin/env python3
"""A job of real processes writes increments; NumPy reads them, and a reader follows what is exported of them."""
import json
import os
import random
import shutil
import sys

import numpy as np
import safetensors

from real_cluster import SOURCE, DirectoryTestCase, program, run
from safetensors_files import checkpoints

sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))
from apply_changes import apply_changes, follow  # noqa: E402
from load_checkpoint import load_checkpoint  # noqa: E402

JOB = """
name: increments
seed: 1
model:
  functional:
    - Input: {name: id, shape: [1], dtype: int64, feature: id}
    - Embedding: {name: range, inputs: id, input_dim: 3000, output_dim: 4}
    - DynamicEmbedding: {name: table, inputs: id, output_dim: 4, min_count: 2, evict_after_steps: 40}
    - Concatenate: {name: both, inputs: [range, table]}
    - Flatten: {name: flat, inputs: both}
    - Dense: {name: answer, inputs: flat, units: 1}
compile: {loss: mse, optimizer: {Adagrad: {learning_rate: 0.1}}}
data:
  batch_size: 8
  train: {csv: {path: records.csv}, label: label}
fit: {epochs: 2}
strategy: {mode: %s, partitioner: {FixedShards: {num_shards: 2}}}
checkpoint: {directory: checkpoints, every_steps: 20, max_to_keep: 100, full_every: %d}
"""


class Increments(DirectoryTestCase):
    def train(self, mode, records, *flags, full_every=4):
        numbers = random.Random(3)
        rows = ["%d,%d" % (int(3000 * numbers.random() ** 3), numbers.randrange(5)) for _ in range(records)]
        self.write("records.csv", "id,label\n" + "\n".join(rows) + "\n")
        job = self.write("job.yaml", JOB % (mode, full_every))
        done = run([program("cohort"), "local", "--ps", "2", "--workers", "2", "--restart", "--run_dir", self.path("run"), *flags, job],
                   {"COHORT_DATA_DIR": self.directory}, limit_s=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.log = done.stdout + done.stderr
        found = checkpoints(self.path("run/checkpoints"))
        self.manifests = {}
        for path in found:
            with open(os.path.join(path, "manifest.json"), encoding="utf-8") as f:
                self.manifests[path] = json.load(f)
        return found

    def step_of(self, path):
        return int(self.manifests[path].get("step", 0))

    def read_bytes(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def same_table(self, a, b):
        for tensors in (a, b):
            order = np.argsort(tensors["table/embeddings@keys"])
            tensors["table/embeddings@keys"] = tensors["table/embeddings@keys"][order]
            tensors["table/embeddings"] = tensors["table/embeddings"][order]
        for name in ("table/embeddings@keys", "table/embeddings", "range/embeddings", "answer/kernel", "answer/bias"):
            np.testing.assert_array_equal(a[name], b[name], name)

    def check(self, found):
        """What each checkpoint has changed since the one before it, exported and applied, makes it of that one."""
        increments = [path for path in found if self.manifests[path].get("base")]
        self.assertGreater(len(increments), 1)
        last = self.manifests[found[-1]]
        self.assertTrue(last["finished"])
        self.assertNotIn("base", last)
        chain = []  # without those of steps that a rollback has repeated
        for path in found:
            while chain and self.step_of(chain[-1]) >= self.step_of(path):
                chain.pop()
            chain.append(path)
        tensors = load_checkpoint(chain[0])
        followed = {name: value.copy() for name, value in tensors.items()}
        first = step = self.step_of(chain[0])
        os.makedirs(self.path("changes"))
        removed = 0
        for path in chain[1:]:
            now = self.step_of(path)
            out = self.path("changes/%06d.safetensors" % now)
            done = run([program("cohort"), "export", path, "--changed_since", str(step), "--out", out])
            self.assertEqual(done.returncode, 0, done.stderr)
            before = set(tensors["table/embeddings@keys"].tolist())
            self.assertEqual(apply_changes(tensors, out), now)
            removed += len(before - set(tensors["table/embeddings@keys"].tolist()))
            self.same_table(tensors, load_checkpoint(path))
            step = now
        self.assertGreater(removed, 0)
        names = [os.path.basename(path) for path in chain]
        with self.assertRaisesRegex(ValueError, "changes since %s, and the tensors are those of ckpt-0-0-0" % names[0]):
            follow(followed, first, self.path("changes"), "ckpt-0-0-0")
        self.assertEqual(follow(followed, first, self.path("changes"), names[0]), (step, names[-1]))
        self.same_table(followed, tensors)
        with safetensors.safe_open(out, framework="numpy") as file:
            self.assertEqual((file.metadata()["base_id"], file.metadata()["id"]), tuple(names[-2:]))

    def test_sync(self):
        found = self.train("sync", 9600)
        self.check(found)
        # 0 1 2 3 | 4 ..: each fourth one is full.
        self.assertEqual([bool(self.manifests[path].get("base")) for path in found[:5]], [False, True, True, True, False])
        text = run([program("cohort"), "inspect", found[2]]).stdout
        self.assertRegex(text, r"increment:  of %s, number 2 since the last full one; \d" % os.path.basename(found[1]))
        self.assertRegex(text, r"range/embeddings .* [1-9]\d* rows changed\n")
        self.assertRegex(text, r"table/embeddings .* rows changed, \d+ removed\n")
        # Over a full one, rows are compared: the result is that of one after another.
        done = run([program("cohort"), "export", found[5], "--changed_since", self.manifests[found[1]]["step"], "--out", self.path("x")])
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = load_checkpoint(found[1])
        apply_changes(tensors, self.path("x"))
        self.same_table(tensors, load_checkpoint(found[5]))
        # Increments alone are read. So damage of the full checkpoint before them shows only where rows are compared with it.
        clean = self.read_bytes("changes/%06d.safetensors" % int(self.manifests[found[3]]["step"]))
        full = os.path.join(found[0], "ps-0.safetensors")
        with open(full, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)[0]
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last ^ 1]))
        since = [program("cohort"), "export", "--out", self.path("x"), "--changed_since"]
        done = run([*since, self.manifests[found[2]]["step"], found[3]])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read_bytes("x"), clean)
        done = run([*since, self.manifests[found[1]]["step"], found[5]])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"ps-0\.safetensors: has checksum")
        done = run([program("cohort"), "export", found[5], "--changed_since", "7", "--out", self.path("x")])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"--changed_since 7: .* has no checkpoint of this step; those up to .* are of \d+, ")

    def test_sync_with_kills_has_the_bits_of_full_checkpoints(self):
        found = self.train("sync", 4800, "--task_flag", "ps:1=--crash_point=ps.snapshot.written:4", "--task_flag",
                           "ps:0=--crash_point=ps.snapshot.taken:7")
        self.assertRegex(self.log, "[1-9][0-9]* rollbacks?")
        self.assertTrue(any(manifest.get("base") for manifest in self.manifests.values()))
        killed = load_checkpoint(found[-1])
        shutil.rmtree(self.path("run"))
        found = self.train("sync", 4800, full_every=1)
        self.assertFalse(any(manifest.get("base") for manifest in self.manifests.values()))
        full = load_checkpoint(found[-1])
        self.assertEqual(set(killed), set(full))
        self.assertIn("table/embeddings@counts", full)
        for name, values in full.items():
            np.testing.assert_array_equal(killed[name], values, name)

    def test_async_with_kills(self):
        found = self.train("async", 24000, "--task_flag", "ps:1=--crash_point=ps.snapshot.written:4")
        self.assertRegex(self.log, "[1-9][0-9]* rollbacks?")
        self.check(found)


if __name__ == "__main__":
    import unittest
    unittest.main()
