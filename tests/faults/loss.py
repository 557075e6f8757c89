# SPDX-License-Identifier: Apache-2.0
"""NaN, infinity and divergence: noticed within 20 steps, and never in a checkpoint.

Data that are not finite are refused by the reader, in place of their batch; what is finite and
larger than float32 can compute with comes to the loss. A case is a number, from which everything
about it is drawn. Its model is trained twice: once with the loss read behind every step, which says
when it broke, and once as scripts do it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from model.nets import Setup, make_model

import hugectr
from faults.harness import Case, FalseSuccess, Lost
from hugectr.data.planted import make_planted

NAME = "a number that is not finite enters: data, a row, a weight, a learning rate"

SLOTS, DENSE, BATCH, STEPS, SOON, IN_A_ROW = 4, 3, 32, 70, 20, 8
SHORT, FULL = 8, 200
FLOAT16 = {"use_mixed_precision": True, "scaler": 128}
BFLOAT16 = {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}
#: Finite; a product with it may not be.
HUGE = 3e38
#: What enters -> the nets that it is put into.
PLACES = {
    "data": ("tower", "deepfm", "dlrm", "dcn", "batch_norm"),
    "row": ("tower", "dlrm", "dcn"),
    "weight": ("tower", "deepfm", "batch_norm"),
    "rate": ("tower", "deepfm", "dlrm", "dcn"),
}


@dataclass(frozen=True)
class Fault:
    """What enters, when, and into what model."""

    place: str
    net: str
    step: int  # the first that may see it, from 1
    value: float
    more: dict[str, Any]
    devices: int
    optimizer: str
    frozen: bool
    saves: int  # steps between checkpoints
    fits: bool


def drawn(number: int) -> Fault:
    """The fault of a number."""
    of = random.Random(number)
    place = of.choice(list(PLACES))
    more = of.choice([{}, {}, BFLOAT16, FLOAT16])
    # A learning rate breaks what float16 has already computed: the step after it is skipped.
    return Fault(
        place,
        of.choice(PLACES[place]),
        of.randint(1, 30),
        of.choice([np.nan, np.inf, -np.inf, *([HUGE, -HUGE] * 2 if place == "data" else [])]),
        {} if place in ("data", "rate") and more is FLOAT16 else more,
        of.choice([1, 2, 4]),
        of.choice(["SGD", "Adam", "AdaGrad"]),
        place == "data" and of.random() < 0.3,
        of.choice([1, 3, 5, 7, 8]),
        of.random() < 0.3 and place == "data",
    )


@cache
def samples() -> Any:
    """The same for all cases."""
    return make_planted(BATCH * STEPS, [12] * SLOTS, dense_dim=DENSE, seed=4)


def build(fault: Fault) -> hugectr.Model:
    """A model with what enters by its data."""
    data = samples()
    if fault.place == "data":
        dense = data.dense.copy()
        dense[fault.step * BATCH - 1, 1] = fault.value
        data = replace(data, dense=dense)
    memory = data.to_memory("keys")
    model = make_model(
        Setup(
            fault.net,
            memory,
            memory,
            SLOTS,
            DENSE,
            batch=BATCH,
            devices=fault.devices,
            optimizer=fault.optimizer,
            lr=0.01,
            more=fault.more,
        )
    )
    if fault.frozen:
        model.freeze_dense()
    return model


def enter(model: hugectr.Model, fault: Fault) -> None:
    """Before the step ``fault.step``."""
    if fault.place == "row":
        table = model.embeddings[0]
        # The keys of a slot of twelve: every batch has them.
        keys = np.arange(12)
        vectors = np.full((12, table.embedding_vec_size), fault.value, np.float32)
        with contextlib.suppress(hugectr.InvalidArgument):
            model.set_table_rows(table.sparse_embedding_name, keys, vectors)
            raise FalseSuccess("set_table_rows took vectors that are not finite")
        if fault.more is not FLOAT16:  # where steps are skipped, rows can not come to this
            bag = {"keys": keys, "slot_ids": None, "vectors": vectors, "states": []}
            model.session.table(0).load(bag | {"last_step": None})
    if fault.place == "weight":
        name = model.dense_weight_names()[-1]  # behind all activations
        values = np.full(model.dense_weight(name).shape, fault.value, np.float32)
        model.set_dense_weight(name, values)
    if fault.place == "rate":
        model.set_learning_rate(1e30)


def steps(model: hugectr.Model, fault: Fault) -> Iterator[int]:
    """Train; the number of every step behind it."""
    for step in range(1, STEPS + 1):
        if step == fault.step:
            enter(model, fault)
        model.train()
        yield step


def when_it_broke(fault: Fault) -> int | None:
    """The step whose loss is the first that counts."""
    model = build(fault)
    needed = IN_A_ROW if fault.more is FLOAT16 else 1
    row = 0
    try:
        for step in steps(model, fault):
            row = 0 if np.isfinite(model.get_current_loss()) else row + 1
            if row == needed:
                return step - needed + 1
    except hugectr.NonFiniteLoss:
        return None  # told before: the case itself fails
    return None


def check_noticed(text: str, done: int, broke: int | None) -> None:
    """Raise if the error of a run that did ``done`` steps came too late or blames another step."""
    if broke is None:
        raise FalseSuccess(f"an error and no step that broke: {text}")
    if done > broke + SOON:
        raise FalseSuccess(f"step {broke} had no finite loss, noticed behind step {done}")
    if f"step {broke} " not in text and "left dense weights" not in text:
        raise FalseSuccess(f"step {broke} had no finite loss, the error says: {text}")


def run_loop(model: hugectr.Model, fault: Fault, folder: Path) -> tuple[str, int]:
    """A loop of train() and save(); what it says, and behind which step."""
    done = 0
    try:
        for done in steps(model, fault):
            if done % fault.saves == 0:
                model.save(folder, keep_last=2)
        model.check_loss()
    except hugectr.NonFiniteLoss as error:
        return str(error), done
    return "", done


def run_fit(model: hugectr.Model, fault: Fault, folder: Path) -> tuple[str, int]:
    """The same with fit(), which displays nothing before it ends."""
    try:
        model.fit(
            max_iter=STEPS,
            eval_interval=0,
            snapshot=0,
            checkpoint_dir=folder,
            checkpoint_interval=fault.saves,
        )
    except hugectr.NonFiniteLoss as error:
        return str(error), model.session.step()
    return "", STEPS


def run_refused(fault: Fault, folder: Path) -> None:
    """Data that are not finite: the reader says so, and nothing of the batch has trained."""
    model = build(fault)
    loop = run_fit if fault.fits else run_loop
    try:
        loop(model, fault, folder)
    except hugectr.DataError as error:
        if "finite" not in str(error):
            raise FalseSuccess(f"refused for another reason: {error}") from error
    else:
        raise FalseSuccess(f"{fault}: data that are not finite were trained on")
    if model.session.step() != fault.step - 1:
        raise FalseSuccess(f"{model.session.step()} steps were trained before step {fault.step}")
    check_checkpoint(model, fault, folder)


def run(number: int, folder: Path) -> None:
    """One case."""
    fault = drawn(number)
    if fault.place == "data" and not np.isfinite(fault.value):
        run_refused(fault, folder)
        return
    broke = when_it_broke(fault)
    model = build(fault)
    loop: Callable[..., tuple[str, int]] = run_fit if fault.fits else run_loop
    try:
        text, done = loop(model, fault, folder)
    except hugectr.DataError as error:  # states overflow before the loss does
        if "is not published" not in str(error):
            raise
        check_checkpoint(model, fault, folder)
        return
    if not text:
        if broke is None:
            return
        raise FalseSuccess(f"{fault}: step {broke} had no finite loss, and {done} steps ended well")
    check_noticed(text, done, broke)
    check_checkpoint(model, fault, folder)


def check_checkpoint(model: hugectr.Model, fault: Fault, folder: Path) -> None:
    """What was published last must be there and finite, and good to go on from."""
    model.wait_for_save()
    path = model.latest_checkpoint(folder)
    if path is None:
        if fault.step > fault.saves:
            raise Lost(f"no checkpoint, though step {fault.saves} was saved before the fault")
        return
    model.resume(path)
    if not np.isfinite(model.session.network.dense_weights()).all():
        raise FalseSuccess(f"{path.name} was published with weights that are not finite")
    rows = model.session.table(0).dump(True)
    if not all(np.isfinite(values).all() for values in (rows["vectors"], *rows["states"])):
        raise FalseSuccess(f"{path.name} was published with rows that are not finite")
    before = int(path.name.removeprefix("step-"))
    if before < fault.step - 1:
        model.train()
        if not np.isfinite(model.get_current_loss()):
            raise FalseSuccess(f"{path.name} does not train")


def cases(full: bool) -> list[Case]:
    """A number each."""
    return [Case(str(n), partial(run, n)) for n in range(FULL if full else SHORT)]
