#!/usr/bin/env python3
"""Public Python packages open the files that Cohort writes."""
import json
import os
import subprocess
import sys
import unittest
import zlib

import numpy as np
import safetensors

import checkpoint_sample
import load_checkpoint


class ReadCheckpoint(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(checkpoint_sample.written())

    def path(self, name):
        return os.path.join(self.directory, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_safetensors_opens_every_shard_file(self):
        with safetensors.safe_open(self.path("ps-0.safetensors"), framework="numpy") as f:
            self.assertEqual(f.metadata(), {"cut": "12"})
            self.assertEqual(set(f.keys()), {"embedding/embeddings/rows_0_3", "dense/bias/rows_0_1",
                                             "embedding/embeddings@velocity/rows_0_3"})
            rows = f.get_tensor("embedding/embeddings/rows_0_3")
            np.testing.assert_array_equal(rows, checkpoint_sample.TABLE[:3])
            self.assertEqual(rows.dtype, np.float32)
        with safetensors.safe_open(self.path("ps-1.safetensors"), framework="numpy") as f:
            np.testing.assert_array_equal(f.get_tensor("scale/rows_0_1"), 0.25)

    def test_the_manifest_is_json_and_its_checksums_are_zlibs(self):
        text = self.read("manifest.json")
        manifest = json.loads(text)
        self.assertEqual(manifest["step"], "1200")  # protobuf's JSON: 64 bits as text
        crc, size = self.read("manifest.json.crc").split()
        self.assertEqual((int(crc, 16), int(size)), (zlib.crc32(text), len(text)))
        self.assertEqual(len(manifest["files"]), 2)
        for file in manifest["files"]:
            data = self.read(file["name"])
            self.assertEqual((file["crc32"], int(file["bytes"])), (zlib.crc32(data), len(data)))

    def test_the_helper_puts_the_pieces_together(self):
        tensors = load_checkpoint.load_checkpoint(self.directory)
        self.assertEqual(set(tensors), set(checkpoint_sample.TENSORS))
        for name, expected in checkpoint_sample.TENSORS.items():
            np.testing.assert_array_equal(tensors[name], expected, err_msg=name)
            self.assertEqual(tensors[name].dtype, expected.dtype)

    def test_the_helper_as_a_program_lists_the_tensors(self):
        listing = subprocess.run([sys.executable, load_checkpoint.__file__, self.directory], check=True,
                                 capture_output=True, text=True).stdout
        self.assertIn("embedding/embeddings: float32 [7, 4]\n", listing)
        self.assertIn("scale: float64 []\n", listing)


if __name__ == "__main__":
    unittest.main()
