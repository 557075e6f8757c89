# SPDX-License-Identifier: Apache-2.0
"""The list of models, and how one of them is added."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hugectr.base.errors import did_you_mean, rejected
from hugectr.data.schema import InputLayer
from hugectr.model.model import Model
from hugectr.models.dcn import dcn
from hugectr.models.deepfm import deepfm
from hugectr.models.din import din
from hugectr.models.dlrm import dlrm
from hugectr.models.fm import fm
from hugectr.models.lr import lr
from hugectr.models.mlp import mlp
from hugectr.models.network import Network
from hugectr.models.sizes import Sizes
from hugectr.models.target import BINARY, Target
from hugectr.models.wdl import wdl

#: Adds what is between Input and loss; returns the name of the logit.
Build = Callable[[Network], str]

_ALL: tuple[Build, ...] = (lr, fm, deepfm, wdl, dcn, dlrm, mlp, din)
MODELS: dict[str, Build] = {one.__name__: one for one in _ALL}
NAMES = tuple(MODELS)
#: Those that look at the steps of sequences.
OF_HISTORIES = ("din",)


def check_model(where: str, name: Any) -> str:
    """The name of a model of the catalogue."""
    if not isinstance(name, str) or name not in MODELS:
        allowed = f"one of {list(NAMES)}{did_you_mean(str(name), NAMES)}"
        raise rejected(where, name, allowed)
    return str(name)


def description(name: str) -> str:
    """What a model is and when to use it.

    Parameters
    ----------
    name : str
        One of ``NAMES``.

    Raises
    ------
    InvalidArgument
        When there is no such model.
    """
    return inspect.getdoc(MODELS[check_model("models.description: name", name)]) or ""


def add(
    model: Model, name: str, inputs: InputLayer, *, target: Target = BINARY, **sizes: Any
) -> None:
    """Add a model of the catalogue: Input, tables, layers and loss. ``compile()`` comes next.

    Parameters
    ----------
    model : Model
        To which nothing was added.
    name : str
        One of ``NAMES``; ``description(name)`` says when to use which.
    inputs : InputLayer
        ``schema.input_layer()``: dense columns, categories, lists. Where a model does not say
        otherwise a sequence counts as a list.
    target : Target
        Loss and number of logits; one of two classes when not given.
    **sizes
        Fields of ``Sizes``: ``vec_size``, ``hidden``, ``dropout``, ``cross_layers``,
        ``cross_rank``.

    Raises
    ------
    InvalidArgument
        When there is no such model or size, or the data lacks what the model needs.

    Notes
    -----
    Keys of a schema are int64: the solver needs ``i64_input_key=True``.
    """
    check_model("models.add: name", name)
    net = Network(model, inputs, Sizes.checked("models.add: ", sizes), target)
    net.loss(MODELS[name](net))
