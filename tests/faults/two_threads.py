# SPDX-License-Identifier: Apache-2.0
"""Every pair of public calls on one model, from two threads at the same time."""

from __future__ import annotations

import functools
from itertools import combinations_with_replacement
from pathlib import Path

from faults.harness import ROOT, Case, Lost, run_script

NAME = "calls on one model from two threads (1,431 pairs, a case for each second call)"

JOB = ROOT / "tests" / "faults" / "two_threads_job.py"
ROUNDS = 6
#: The calls of two_threads_job.py, which has them with their arguments.
CALLS = (
    "check_out_tensor",
    "dense_weight",
    "eval",
    "eval_batches",
    "evaluate",
    "fit",
    "fit_saving",
    "freeze",
    "get_current_loss",
    "get_eval_metrics",
    "get_incremental_model",
    "get_next",
    "get_params_num",
    "graph_to_json",
    "is_eof",
    "latest_checkpoint",
    "layer_summary",
    "load_dense_optimizer_states",
    "load_dense_weights",
    "load_sparse_optimizer_states",
    "load_sparse_weights",
    "loss_scale",
    "memory_report",
    "next_learning_rate",
    "note_touched_rows",
    "profile",
    "reader_metrics",
    "reader_set_source",
    "reset_learning_rate_scheduler",
    "restart_evaluation_data",
    "restart_training_data",
    "resume",
    "save",
    "save_background",
    "save_delta",
    "save_is_under_way",
    "save_params_to_files",
    "session_dump",
    "set_dense_weight",
    "set_dense_weights",
    "set_learning_rate",
    "set_source",
    "set_table_rows",
    "skipped_steps",
    "stage_seconds",
    "start_data_reading",
    "table",
    "table_stats",
    "tensor",
    "train",
    "trainable",
    "unfreeze",
    "wait_for_save",
)


def held(folder: Path, firsts: list[str], second: str) -> None:
    """A model is usable after calls of two threads met on it."""
    ended = run_script(JOB, folder, ROUNDS, ",".join(firsts), second, seconds=300)
    if ended.status != 0 or "ended: usable" not in ended.out:
        raise Lost(f"status {ended.status}\n{ended.out[-2000:]}\n{ended.err[-6000:]}")


def cases(full: bool) -> list[Case]:
    """A case a pair; in full those of one call run in one process, pair after pair."""
    if not full:
        pairs = [(["get_incremental_model", "save", "train"], "train")]
    else:
        by_second: dict[str, list[str]] = {}
        for first, second in combinations_with_replacement(CALLS, 2):
            by_second.setdefault(second, []).append(first)
        pairs = [(firsts, second) for second, firsts in by_second.items()]
    return [
        Case(
            f"{'+'.join(firsts[:3])}-{second}",
            functools.partial(held, firsts=firsts, second=second),
        )
        for firsts, second in pairs
    ]
