# SPDX-License-Identifier: Apache-2.0
"""What torch does to modules and can not do to a collection: its rows are in the core's tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.spec.optimizer import OptParamsPy

#: Whether torch exports a program, which may be run elsewhere. Of an old torch nobody knows.
is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


class OutsideOfTorch(torch.nn.Module):
    """A module whose rows are in tables of the core; refuses what would leave them behind."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Neither pickled nor copied: rows are in tables of the core."""
        raise TypeError(
            f"{type(self).__name__} can not be pickled or copied: its rows are in tables outside "
            "of torch. Make another of the same configs and have it load_state_dict() of this "
            "one's state_dict(), or load() what this one's save() wrote; averages of weights "
            "(AveragedModel) are kept of the dense part alone"
        )

    def _replicate_for_data_parallel(self) -> Any:
        """Not replicated: ``nn.DataParallel`` gives each device a copy of parameters."""
        raise InvalidArgument(
            f"{type(self).__name__}: nn.DataParallel can not have a copy of its tables on each "
            "device: leave it outside, with its vectors as the input of what is in it, or take a "
            "process a device (DistributedDataParallel), which share the tables"
        )

    def __prepare_scriptable__(self) -> Any:
        """Not scripted: ``torch.jit`` would take its methods for code of its own."""
        raise self._not_for_jit()

    def _check_not_exported(self) -> None:
        """Refuses ``torch.export`` of a lookup that would train: a program has but constants in the
        place of what training goes by, so that rows would stay as they are without a word.

        Not where Dynamo traces (``strict=True``): to that of some torches all is an export.
        """
        if not torch.compiler.is_dynamo_compiling() and is_exporting():
            raise InvalidArgument(
                f"{type(self).__name__}: an exported program looks rows up and trains none: call "
                "eval() on the model before torch.export (torch.compile takes training)"
            )

    def _check_not_traced(self, batch: Any) -> None:
        """Refuses ``torch.jit.trace``: in a trace is nothing of what the core writes; and
        ``torch.fx.symbolic_trace``, which has no batch to look at."""
        if torch.compiler.is_compiling():
            return
        if torch.jit.is_tracing():
            raise self._not_for_jit()
        if isinstance(batch, torch.fx.Proxy):
            raise InvalidArgument(
                f"{type(self).__name__}: torch.fx can not trace what it does with a batch: give "
                "torch.fx.Tracer an is_leaf_module() that is true of it"
            )

    def _not_for_jit(self) -> InvalidArgument:
        return InvalidArgument(
            f"{type(self).__name__}: torch.jit can neither script nor trace it (nor can "
            "torch.onnx.export, without dynamo=True), for its rows are in tables outside of torch: "
            "trace what follows it, with its vectors as the input; torch.compile takes all"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **more: Any
    ) -> None:
        """As of any module, with a word where the rows of another kind of table are given."""
        found = [name for name in state_dict if name.startswith(prefix) and "weight" in name]
        if found and prefix + "_extra_state" not in state_dict:
            log.warning(
                f"load_state_dict: {type(self).__name__} does not take {found}: a weight of "
                "nn.EmbeddingBag or of TorchRec becomes rows by "
                f"hugectr.torch.import_embedding_bag(collection, state_dict[{found[0]!r}], "
                "TABLE), and load_state_dict(strict=False) takes the rest of the model"
            )
        super()._load_from_state_dict(state_dict, prefix, *rest, **more)


def check_collection(what: str, found: Any) -> None:
    """Refuses a module that has a collection in it, and whatever is none.

    Raises
    ------
    InvalidArgument
        Which says what was found for what.
    """
    if isinstance(found, OutsideOfTorch):
        return
    inside = ""
    if isinstance(found, torch.nn.Module):
        names = [name for name, each in found.named_modules() if isinstance(each, OutsideOfTorch)]
        inside = f", which has collections as {names}" if names else ""
    raise InvalidArgument(
        f"{what}: it takes an EmbeddingBag, EmbeddingBagCollection or EmbeddingCollection of "
        f"hugectr.torch, found {type(found).__name__}{inside}"
    )


def _check_of_rows(found: OptParamsPy) -> None:
    """Refuses what an optimizer of rows alone can not do."""
    if found.to_spec().get("clip_norm"):
        raise InvalidArgument(
            "optimizer: clip_norm is the norm of all gradients of a model, of which a collection "
            "has those of its rows alone: leave it out, and call "
            "torch.nn.utils.clip_grad_norm_([*model.parameters(), *rows.rows], max_norm) before "
            "step(), where rows is what collection.optimizer(lr) returned"
        )
    if found.schedule is not None:
        raise InvalidArgument(
            "optimizer: a collection takes no learning_rate of CreateOptimizer: give it to "
            "collection.optimizer(lr), which schedulers of torch change"
        )


def check_optimizer(found: Any) -> None:
    """Refuses what is no optimizer of rows.

    Raises
    ------
    InvalidArgument
        Which says how one is made.
    """
    if found is None:
        return
    if isinstance(found, OptParamsPy):
        _check_of_rows(found)
        return
    what = found if isinstance(found, (type, str, int, float)) else type(found).__name__
    raise InvalidArgument(
        f"optimizer: found {what!r}; rows are updated by one of hugectr's, which is made by "
        "hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local), and the "
        "learning rate is given to collection.optimizer(lr)"
    )
