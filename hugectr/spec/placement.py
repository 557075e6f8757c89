# SPDX-License-Identifier: Apache-2.0
"""Where the rows of a table lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hugectr.base.arguments import check_choice, check_int, check_ints
from hugectr.base.errors import rejected
from hugectr.base.keywords import named_keywords
from hugectr.plan.table_load import KINDS

#: As manifests and the core call them: those that a planner chooses among.
PLACEMENTS = KINDS
#: Those that a device can be given for.
_OF_A_DEVICE = ("one_device", "by_column")


@named_keywords("Placement")
@dataclass(frozen=True)
class Placement:
    """Which devices hold which rows and columns of a table. The model does not depend on it.

    Parameters
    ----------
    kind : {"by_key", "by_slot", "one_device", "replicated", "by_column", "hybrid"}
        ``"by_key"``: row of a key on device key % devices. ``"by_slot"``: rows of a slot on device
        slot % devices (tables that tell rows apart by slot, or have one slot). ``"one_device"``:
        all rows on one device. ``"replicated"``: all rows on every device; look-ups are local, and
        only gradients travel. ``"by_column"``: every row on several devices of one process, some of
        its columns on each, in packs of four; not for optimizers with one number a row.
        ``"hybrid"``: rows of frequent keys on every device, the others by key; for tables that do
        not tell rows apart by slot.
    device : int, optional
        Of ``"one_device"``: which, counted over all processes. None: the one with the least work
        of the model's tables that are placed so. Of ``"by_column"``: the first; None: device 0.
    frequent : list of int, optional
        Of ``"hybrid"``: the frequent keys. None: counted in the first samples of the training data
        when the model is compiled (``num_iterations_statistics`` batches), by the rule of
        ``HybridEmbeddingParam``.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    kind: str
    device: int | None = None
    frequent: Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_choice("Placement: kind", self.kind, PLACEMENTS)
        if self.device is not None:
            object.__setattr__(self, "device", check_int("Placement: device", self.device, 0))
            if self.kind not in _OF_A_DEVICE:
                allowed = f"None: {self.kind!r} is not of one device"
                raise rejected("Placement: device", self.device, allowed)

        if self.frequent is not None:
            if self.kind != "hybrid":
                allowed = f"None: {self.kind!r} has no frequent keys"
                raise rejected("Placement: frequent", self.frequent, allowed)
            keys = check_ints("Placement: frequent", self.frequent)
            object.__setattr__(self, "frequent", tuple(sorted(set(keys))))

    def __str__(self) -> str:
        return self.kind if self.device is None else f"{self.kind} {self.device}"

    def to_json(self) -> dict[str, Any]:
        """Its fields, as JSON files hold them."""
        given: dict[str, Any] = {"kind": self.kind}
        if self.device is not None:
            given["device"] = self.device
        if self.frequent is not None:
            given["frequent"] = list(self.frequent)
        return given


def check_placement(name: str, value: Any) -> Placement | None:
    """None, a ``Placement``, its kind, or its fields in a dict.

    Parameters
    ----------
    name : str
        What messages call it.
    value : object
    """
    if value is None or isinstance(value, Placement):
        return value
    if isinstance(value, str):
        return Placement(check_choice(name, value, PLACEMENTS))
    if (
        isinstance(value, Mapping)
        and "kind" in value
        and not set(value) - {"kind", "device", "frequent"}
    ):
        return Placement(**value)
    allowed = f"a hugectr.Placement, or one of {', '.join(map(repr, PLACEMENTS))}"
    raise rejected(name, value, allowed)
