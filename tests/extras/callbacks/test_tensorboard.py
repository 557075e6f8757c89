# SPDX-License-Identifier: Apache-2.0
"""TensorBoard reads what its callback wrote."""

import numpy as np
import pytest
from oracle.generated_model import auto_is_the_cpu, data_folder, make_model
from oracle.streaming_net import build, stream
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import hugectr
from hugectr.callbacks import Callback, TensorBoard

__all__ = ["auto_is_the_cpu", "data_folder", "make_model"]


class Losses(Callback):
    def __init__(self):
        self.at = {}

    def on_step(self, step, logs):
        self.at[step] = logs["loss"]


def test_its_curves_are_the_history(make_model, tmp_path):
    model = make_model()
    model.compile()
    losses = Losses()
    board = TensorBoard(tmp_path / "runs", every=5)
    history = model.fit(max_iter=20, eval_interval=8, callbacks=[board, losses])
    events = EventAccumulator(str(tmp_path / "runs"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"training/loss", "training/lr", "evaluation/AUC"}
    found = {event.step: event.value for event in events.Scalars("training/loss")}
    assert found == pytest.approx({step: losses.at[step] for step in (5, 10, 15, 20)})
    evaluated = [(event.step, event.value) for event in events.Scalars("evaluation/AUC")]
    assert [step for step, _ in evaluated] == [one["step"] for one in history.evaluations]
    assert [auc for _, auc in evaluated] == pytest.approx(
        [one["AUC"] for one in history.evaluations]
    )


class Stats(Callback):
    """What the tables say at each step, beside the callback under test."""

    def __init__(self):
        self.at = {}

    def on_step(self, step, logs):
        self.at[step] = self.model.table_stats()


LIFE = ("rows", "admitted", "refused", "evicted")
TIERS = ("hits", "misses", "bytes_fetched", "bytes_written_back")
DISK = ("disk_rows", "disk_bytes_read", "disk_bytes_written", "segments_swept")


@pytest.mark.parametrize(
    ("life", "tier", "wanted"),
    [
        ({}, None, ()),
        ({"max_rows": 60, "evict": "lru", "evict_every": 3, "admit_after": 2}, None, LIFE),
        ({}, "host", TIERS),
        ({"max_rows": 60, "evict": "lfu", "evict_every": 3}, "host", LIFE + TIERS),
        ({}, "disk", TIERS + DISK),
    ],
)
def test_curves_of_tables_are_their_counts(life, tier, wanted, tmp_path):
    steps, every = 60, 12
    data = stream(np.random.default_rng(5), steps)
    memory = {
        None: None,
        "host": hugectr.Memory(device="12KB"),
        "disk": hugectr.Memory(device="12KB", host="36KB", disk=f"{tmp_path / 'rows'}:64MB"),
    }[tier]
    model = build(data, life, memory=memory)
    board, stats = TensorBoard(tmp_path / "runs", every=every), Stats()
    model.fit(max_iter=steps, display=steps, snapshot=0, eval_interval=99, callbacks=[board, stats])
    events = EventAccumulator(str(tmp_path / "runs"))
    events.Reload()
    found = {tag for tag in events.Tags()["scalars"] if tag.startswith("tables/")}
    assert found == {f"tables/{table}/{what}" for table in ("one", "two") for what in wanted}
    for i, table in enumerate(("one", "two")):
        for what in wanted:
            curve = {event.step: event.value for event in events.Scalars(f"tables/{table}/{what}")}
            counts = {n: stats.at[n][i][what] for n in range(every, steps + 1, every)}
            if what not in DISK:
                assert curve == pytest.approx(counts)
                continue
            # A thread writes them: told between what was counted before and behind. Never fewer.
            assert curve
            for n, value in curve.items():
                assert stats.at[n - 1][i][what] <= value <= counts[n]
    if wanted:  # something was there to be told
        assert sum(stats.at[steps][0][what] for what in wanted) > 0
