# SPDX-License-Identifier: Apache-2.0
"""Two threads that call one model: two_threads_job.py FOLDER ROUNDS CALL[,CALL...] CALL."""

import sys
import threading
from pathlib import Path

import numpy as np
from model.nets import Setup, make_model

import hugectr
from hugectr.data import from_arrays


def data(samples, seed):
    """Random samples in memory."""
    draw = np.random.default_rng(seed)
    return from_arrays(
        label=draw.integers(0, 2, (samples, 1)),
        dense=draw.normal(size=(samples, 3)),
        sparse={"keys": draw.integers(0, 400, (samples, 4))},
    )


def make():
    setup = Setup("tower", data(640, 1), data(256, 2), slots=4, dense_dim=3, optimizer="Adam")
    setup.batch, setup.i64, setup.eval_batches = 32, True, 2
    return make_model(setup)


def calls(model, folder):
    """Every public call of a compiled model, by name, with arguments that work."""
    weight = model.dense_weight_names()[0]
    shape = model.dense_weight(weight).shape
    zeros = np.zeros(shape, np.float32)
    weights = np.concatenate(
        [np.asarray(model.dense_weight(n)).ravel().copy() for n in model.dense_weight_names()]
    )
    prefix = str(folder / "files")
    model.save_params_to_files(prefix, 1)
    model.save(folder / "resumed")
    keys, vectors = np.arange(4), np.zeros((4, 8), np.float32)
    reader = model.get_data_reader_train()
    return {
        "train": model.train,
        "eval": model.eval,
        "evaluate": model.evaluate,
        "eval_batches": model.eval_batches,
        "fit": lambda: model.fit(max_iter=3, display=1, eval_interval=2, snapshot=0),
        "fit_saving": lambda: model.fit(
            max_iter=3, display=0, checkpoint_dir=folder / "fit", checkpoint_interval=2
        ),
        "save": lambda: model.save(folder / threading.current_thread().name),
        "save_background": lambda: model.save(folder / "background", background=True),
        "save_delta": lambda: model.save(folder / "delta", delta=True),
        "wait_for_save": model.wait_for_save,
        "save_is_under_way": model.save_is_under_way,
        "resume": lambda: model.resume(folder / "resumed"),
        "latest_checkpoint": lambda: model.latest_checkpoint(folder / "resumed"),
        "get_incremental_model": model.get_incremental_model,
        "note_touched_rows": model.note_touched_rows,
        "save_params_to_files": lambda: model.save_params_to_files(prefix + "2", 2),
        "load_dense_weights": lambda: model.load_dense_weights(prefix + "_dense_1.model"),
        "load_dense_optimizer_states": lambda: model.load_dense_optimizer_states(
            prefix + "_opt_dense_1.model"
        ),
        "load_sparse_weights": lambda: model.load_sparse_weights([prefix + "0_sparse_1.model"]),
        "load_sparse_optimizer_states": lambda: model.load_sparse_optimizer_states(
            [prefix + "0_opt_sparse_1.model"]
        ),
        "start_data_reading": model.start_data_reading,
        "set_source": lambda: model.set_source(""),
        "restart_training_data": model.restart_training_data,
        "restart_evaluation_data": model.restart_evaluation_data,
        "reader_set_source": reader.set_source,
        "is_eof": reader.is_eof,
        "get_current_loss": model.get_current_loss,
        "get_eval_metrics": model.get_eval_metrics,
        "set_learning_rate": lambda: model.set_learning_rate(0.01),
        "next_learning_rate": model.next_learning_rate,
        "get_next": model.get_learning_rate_scheduler().get_next,
        "reset_learning_rate_scheduler": lambda: model.reset_learning_rate_scheduler(0.1),
        "freeze": lambda: (model.freeze_embedding(), model.freeze_dense()),
        "unfreeze": lambda: (model.unfreeze_embedding(), model.unfreeze_dense()),
        "trainable": model.trainable,
        "check_out_tensor": lambda: model.check_out_tensor("relu1"),
        "table_stats": model.table_stats,
        "loss_scale": model.loss_scale,
        "skipped_steps": model.skipped_steps,
        "memory_report": model.memory_report,
        "get_params_num": model.get_params_num,
        "stage_seconds": model.stage_seconds,
        "reader_metrics": model.reader_metrics,
        "profile": lambda: model.profile(1),
        "tensor": lambda: model.tensor("relu1").copy_to_host(),
        "dense_weight": lambda: model.dense_weight(weight).copy_to_host(),
        "set_dense_weight": lambda: model.set_dense_weight(weight, zeros),
        "set_dense_weights": lambda: model.set_dense_weights(weights),
        "table": lambda: model.table("emb").vectors.copy_to_host(),
        "set_table_rows": lambda: model.set_table_rows("emb", keys, vectors),
        "layer_summary": model.layer_summary,
        "graph_to_json": lambda: model.graph_to_json(folder / "graph.json"),
        "session_dump": lambda: model.session.table(0).dump(),
    }


def meet(model, first, second, rounds):
    """Both calls at the same time, again and again; returns what was raised."""
    errors, start = [], threading.Barrier(2)

    def run(call):
        start.wait()
        for _ in range(rounds):
            try:
                call()
            except hugectr.InvalidArgument as error:
                errors.append(error)  # a clear word is all right: as after the end of the data

    threads = [threading.Thread(target=run, args=(c,)) for c in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def main():
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    model = make()
    for _ in range(3):
        model.train()
    model.evaluate()
    all_calls = calls(model, folder)
    second = sys.argv[4]
    for first in sys.argv[3].split(","):
        print("pair", first, second, flush=True)
        for error in meet(model, all_calls[first], all_calls[second], rounds):
            print("refused:", error)
    model.wait_for_save()
    model.unfreeze_embedding()
    model.unfreeze_dense()
    model.resume(folder / "resumed")
    steps = model.session.step()
    assert model.train()
    assert np.isfinite(model.get_current_loss())
    assert model.session.step() == steps + 1
    hugectr.checkpoints.verify(model.save(folder / "last"))
    print("ended: usable")


if __name__ == "__main__":
    main()
