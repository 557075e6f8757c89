# SPDX-License-Identifier: Apache-2.0
"""What happens beside a training: callbacks of ``Model.fit``, and the history that it returns.

A callback is a class with the events it wants::

    class Notify(hugectr.callbacks.Callback):
        def on_eval(self, step, logs):
            print(f"step {step}: AUC {logs['AUC']:.4f}")

    history = model.fit(max_iter=10_000, callbacks=[Notify()])

Events that no callback has cost nothing.
"""

from hugectr.callbacks.callback import Callback
from hugectr.callbacks.csv_log import CSVLog
from hugectr.callbacks.early_stopping import EarlyStopping
from hugectr.callbacks.history import History
from hugectr.callbacks.learning_rate import LearningRate
from hugectr.callbacks.plateau import Plateau
from hugectr.callbacks.report import Report
from hugectr.callbacks.schedules import Cosine, Step, WarmUp
from hugectr.callbacks.tensorboard import TensorBoard
from hugectr.callbacks.training_callback import TrainingCallback

__all__ = [
    "CSVLog",
    "Callback",
    "Cosine",
    "EarlyStopping",
    "History",
    "LearningRate",
    "Plateau",
    "Report",
    "Step",
    "TensorBoard",
    "TrainingCallback",
    "WarmUp",
]
