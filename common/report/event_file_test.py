#!/usr/bin/env python3
"""Reads the files of common/report with TensorBoard itself.

Usage: event_file_test.py REPORT_TEST_BINARY
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.util import tensor_util

BINARY = ""


class EventFileTest(unittest.TestCase):
    def scalars(self, directory, tag):
        accumulator = event_accumulator.EventAccumulator(directory)
        accumulator.Reload()
        return [(e.step, e.value) for e in accumulator.Scalars(tag)], accumulator.Tags()["scalars"]

    def check_values(self, directory):
        """Histograms, the graph and hyper-parameters, as TensorBoard's plugins read them."""
        accumulator = event_accumulator.EventAccumulator(directory)
        accumulator.Reload()
        [event] = accumulator.Tensors("dense/kernel/histogram")
        self.assertEqual(event.step, 7)
        buckets = tensor_util.make_ndarray(event.tensor_proto)
        self.assertEqual(buckets.shape, (30, 3))
        self.assertEqual((buckets[0].tolist(), buckets[-1].tolist()), ([0, 2, 2], [58, 60, 3]))
        self.assertEqual(buckets[:, 2].sum(), 61)
        [event] = accumulator.Tensors("equal")
        self.assertEqual(tensor_util.make_ndarray(event.tensor_proto)[-1].tolist(), [2, 2, 4])
        self.assertEqual(sorted(accumulator.PluginTagToContent("histograms")),
                         ["dense/kernel/histogram", "equal", "none"])
        graph = accumulator.Graph()
        self.assertEqual([(n.name, n.op, list(n.input), n.device) for n in graph.node],
                         [("x", "InputLayer", [], ""), ("dense", "Dense", ["x"], "cpu:1")])
        self.assertEqual(graph.node[1].attr["params"].i, 15)
        [shape] = graph.node[1].attr["_output_shapes"].list.shape
        self.assertEqual([dim.size for dim in shape.dim], [-1, 3])
        tags = accumulator.PluginTagToContent("hparams")
        begin = hparams.parse_session_start_info_plugin_data(tags[hparams.SESSION_START_INFO_TAG])
        self.assertEqual(begin.start_time_secs, 1000)
        self.assertEqual((begin.hparams["seed"].number_value, begin.hparams["loss"].string_value,
                          begin.hparams["amsgrad"].HasField("bool_value")), (1, "mse", True))
        end = hparams.parse_session_end_info_plugin_data(tags[hparams.SESSION_END_INFO_TAG])
        self.assertEqual((end.end_time_secs, end.status), (2000, api_pb2.Status.STATUS_SUCCESS))

    def test_tensorboard_reads_every_scalar(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([BINARY, "files for TensorBoard"], check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, COHORT_TEST_OUTPUT=directory))
            steps, tags = self.scalars(directory + "/train", "step_loss")
            self.assertEqual([s for s, _ in steps], [100, 200, 300])
            for (_, value), expected in zip(steps, (1, 1 / 2, 1 / 3)):
                self.assertAlmostEqual(value, expected, places=6)
            self.assertEqual(sorted(tags), ["epoch_accuracy", "epoch_loss", "step_loss"])
            self.assertEqual(self.scalars(directory + "/train", "epoch_loss")[0],
                             [(300, 0.5), (1 << 40, -1.0)])
            self.assertEqual(self.scalars(directory + "/validation", "epoch_loss")[0],
                             [(300, 0.625)])
            self.check_values(directory + "/more")
            with open(directory + "/metrics.jsonl") as f:
                lines = [json.loads(line) for line in f]
            self.assertEqual(len(lines), 6)
            self.assertEqual((lines[3]["set"], lines[3]["epoch"], lines[3]["accuracy"]),
                             ("train", 1, 0.75))


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
