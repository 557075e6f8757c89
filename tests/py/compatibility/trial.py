# SPDX-License-Identifier: Apache-2.0
"""Runs the code of a row, and says what came of it."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compatibility import models
from compatibility.rows import Row
from oracle.generated_model import CONFIG

import hugectr
from hugectr.base.no_effect import forget_warnings
from hugectr.command.huge_ctr import main as huge_ctr
from hugectr.config.config_file import read_config

WORKS, IGNORED, REJECTED = "works", "accepted, no effect", "rejected"
_MOST = 240  # characters of a reason


@dataclass(frozen=True)
class Outcome:
    """What came of a row: a state, and why."""

    state: str
    why: str = ""


def try_row(row: Row) -> Outcome:
    """Run a row's code.

    Rejected is what raises InvalidArgument, or what Python says of names and arguments that there
    are not; any other error is one of this package, and is raised.
    """
    forget_warnings()
    with _warnings() as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(row[1], f"<{row[0]}>", "exec"), dict(_NAMES))
        except (hugectr.InvalidArgument, AttributeError, TypeError) as error:
            return Outcome(REJECTED, _short(str(error)))
    found = [text.partition(" has no effect: ")[2] for text in said if " has no effect: " in text]
    if len(row) > 2:
        assert not found, f"{row[0]}: it says itself that it has no effect; take the reason out"
        return Outcome(IGNORED, row[2])
    return Outcome(IGNORED, _short(found[0])) if found else Outcome(WORKS)


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                said.append(record.getMessage())

    logger = logging.getLogger("hugectr")
    before = logger.handlers[:]
    logger.handlers[:] = [Keep()]
    try:
        yield said
    finally:
        logger.handlers[:] = before


def _short(text: str) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))
    return text if len(text) <= _MOST else text[: _MOST - 1].rstrip(" ,") + "…"


# --- what the code of rows calls ------------------------------------------------------------------


def _config(change: Any = None) -> str:
    value = copy.deepcopy(CONFIG)
    if change:
        change(value)
    with open("config.json", "w", encoding="utf-8") as file:
        json.dump(value, file)
    return "config.json"


def _json_solver(**keys: Any) -> None:
    taken = {
        "num_epochs": ("max_iter",),
        "max_eval_samples": ("max_eval_batches",),
        "eval_batches": ("max_eval_batches",),
    }

    def change(config: dict[str, Any]) -> None:
        for key, value in keys.items():
            for other in taken.get(key, ()):
                config["solver"].pop(other, None)
            config["solver"][key] = value

    read_config(_config(change))


def _json_section(**sections: Any) -> None:
    read_config(_config(lambda config: config.update(sections)))


def _json_optimizer(optimizer: dict[str, Any]) -> None:
    read_config(_config(lambda config: config.update(optimizer=optimizer)))


def _json_data(**keys: Any) -> None:
    read_config(_config(lambda config: config["layers"][0].update(keys)))


def _json_embedding(**keys: Any) -> None:
    read_config(_config(lambda config: config["layers"][1]["sparse_embedding_hparam"].update(keys)))


def _json_table(**keys: Any) -> None:
    def change(config: dict[str, Any]) -> None:
        sizes = keys.pop("slot_size_array", None)
        table = config["layers"][1]
        table.update(keys)
        if sizes is not None:
            table["sparse_embedding_hparam"]["slot_size_array"] = sizes

    read_config(_config(change))


def _json_layer(kind: str, bottoms: int, tops: int, **keys: Any) -> None:
    """A config in which the layer stands before the loss, or is the loss; shapes are not asked."""
    layer = {
        "name": "tried",
        "type": kind,
        "bottom": ["fc2", "label"][:bottoms],
        "top": [f"tried{i}" for i in range(tops)],
        **keys,
    }

    def change(config: dict[str, Any]) -> None:
        config["layers"][-1:] = [layer] if kind.endswith("Loss") else [layer, config["layers"][-1]]

    read_config(_config(change))


_NAMES = {
    "hugectr": hugectr,
    "os": os,
    "Path": Path,
    "L": models.L,
    "I": hugectr.Initializer_t,
    "T": hugectr.DataReaderType_t,
    "epochs": lambda: models.compiled(repeat_dataset=False),
    **{name: value for name, value in vars(models).items() if callable(value)},
    "config": _config,
    "json_solver": _json_solver,
    "json_section": _json_section,
    "json_optimizer": _json_optimizer,
    "json_data": _json_data,
    "json_embedding": _json_embedding,
    "json_table": _json_table,
    "json_layer": _json_layer,
    "huge_ctr": huge_ctr,
}
