"""The checkpoint that checkpoint_sample.cc writes, for the tests beside it."""
import contextlib
import os
import subprocess
import tempfile

import numpy as np

TABLE = np.arange(28, dtype=np.float32).reshape(7, 4)
TENSORS = {
    "embedding/embeddings": TABLE,
    "embedding/embeddings@velocity": TABLE + 1000,
    "dense/kernel": np.array([[0], [10], [20], [30]], np.float32),
    "dense/bias": np.array([-0.5], np.float32),
    "scale": np.array(0.25, np.float64),
}


@contextlib.contextmanager
def written():
    """The directory of the checkpoint, for as long as the context lasts."""
    program = os.path.join(os.environ["COHORT_BINARY_DIR"], "tests", "checkpoint_sample")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, directory], check=True)
        yield directory
