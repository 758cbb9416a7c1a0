"""Trains any Keras model, PyTorch module or function of jax on a Cohort cluster.

    history = cohort.fit(model, x, y, epochs=5, batch_size=32, workers=3, ps=2)
"""

from cohort._evaluate import evaluate
from cohort._export import export, export_saved_model, register_keras
from cohort._export_model import ExportError
from cohort._fit import History, fit
from cohort._job import Job as job
from cohort._load_weights import load_weights
from cohort._graph import TraceError
from cohort._predict import predict
from cohort._programs import ProgramError
from cohort._run import JobError
from cohort._version import __version__
from cohort.external import external_step

__all__ = ["ExportError", "History", "JobError", "ProgramError", "TraceError", "__version__", "evaluate", "export", "export_saved_model",
           "external_step", "fit", "job", "load_weights", "predict", "register_keras"]
