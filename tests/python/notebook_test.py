#!/usr/bin/env python3
"""Executes the notebook of the examples: each cell runs, two have a plot, and the model learns."""

import os
import sys
import unittest

import nbclient
import nbformat

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["PYTHONPATH"] = os.path.join(SOURCE, "deploy", "python")
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"


class NotebookTest(unittest.TestCase):
    def test_it_runs_and_plots(self):
        notebook = nbformat.read(os.path.join(SOURCE, "deploy", "examples", "python", "train.ipynb"), as_version=4)
        nbformat.validate(notebook)
        client = nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": "/tmp"}})
        client.create_kernel_manager()
        client.km.kernel_spec.argv[0] = sys.executable
        client.execute()
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        self.assertEqual(sum("image/png" in output.get("data", {}) for output in outputs), 2)
        text = "".join(output.text for output in outputs if output.output_type == "stream")
        self.assertRegex(text, r"Epoch 12/12")
        self.assertRegex(text, r"val_accuracy: (0\.9|1\.0)")
        self.assertIn("model.safetensors", text)


if __name__ == "__main__":
    unittest.main()
