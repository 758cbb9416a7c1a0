#!/usr/bin/env python3
"""Exports a trained module of PyTorch: its state dict, a Keras model and ONNX answer as the module does."""

import os
import sys
import unittest

os.environ.update(CUDA_VISIBLE_DEVICES="", KERAS_BACKEND="torch")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import real_cluster  # noqa: E402

os.environ["COHORT_BIN_DIR"] = os.path.join(real_cluster.BINARY, "bin")

import cohort  # noqa: E402
from cohort import _export_torch  # noqa: E402


class Rows(nn.Module):
    """A picture's rows as steps: layouts and orders of gates differ between PyTorch and Cohort."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
        self.gru = nn.GRU(16, 5, batch_first=True)
        self.scale = nn.Parameter(torch.ones(5))
        self.register_buffer("shift", torch.full((5,), 0.5))
        self.register_buffer("unread", torch.arange(7))
        self.last = nn.Linear(5, 3)

    def forward(self, image):
        x = self.features(image)
        x = x.permute(0, 2, 1, 3).flatten(2)
        return self.last(self.gru(x)[0].mean(1) * self.scale + self.shift)


class ExportTorch(unittest.TestCase):
    def test_a_module_in_each_format(self):
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(48, 3, 8, 8)).astype(np.float32), rng.integers(0, 3, 48)
        module = Rows()
        with real_cluster.Directory() as directory:
            run = cohort.fit(module, x, y, epochs=1, batch_size=16, verbose=0, loss=nn.CrossEntropyLoss(),
                             optimizer=torch.optim.Adam(module.parameters(), 0.01), run_dir=os.path.join(directory, "run"))
            module.eval()
            want = module(torch.tensor(x)).detach().numpy()
            np.testing.assert_allclose(cohort.predict(run, x), want, atol=1e-5)

            cohort.export(run, os.path.join(directory, "m.pt"))
            other = Rows()
            other.load_state_dict(torch.load(os.path.join(directory, "m.pt")))
            for name, tensor in module.state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    torch.testing.assert_close(other.state_dict()[name], tensor, rtol=0, atol=0, msg=name)

            cohort.export(run, os.path.join(directory, "m.onnx"))
            session = onnxruntime.InferenceSession(os.path.join(directory, "m.onnx"), providers=["CPUExecutionProvider"])
            got, = session.run(None, {session.get_inputs()[0].name: x})
            np.testing.assert_allclose(got, want, atol=1e-5)

            import keras

            cohort.register_keras()
            cohort.export(run, os.path.join(directory, "m.keras"))
            model = keras.saving.load_model(os.path.join(directory, "m.keras"))
            np.testing.assert_allclose(keras.ops.convert_to_numpy(model(x, training=False)), want, atol=1e-5)


    def test_a_damaged_layout_is_an_error(self):
        values = np.arange(6.0)
        np.testing.assert_array_equal(_export_torch._view(values, 1, [2, 2], [1, 2], "w"), [[1, 3], [2, 4]])
        for view in ((-1, [2], [1]), (3, [4], [1]), (0, [2, 2], [1, 5]), (5, [3], [-1]), (0, [2], [1, 1])):
            with self.subTest(view), self.assertRaisesRegex(cohort.ExportError, "w: model.cohort tells a place outside the variable"):
                _export_torch._view(values, *view, "w")


if __name__ == "__main__":
    unittest.main()
