# SPDX-License-Identifier: Apache-2.0
"""Sizes of models, and what they are where nobody says: rules, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hugectr.base.arguments import check_float, check_int, check_ints
from hugectr.base.errors import InvalidArgument, did_you_mean


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model.

    Parameters
    ----------
    vec_size : int
        Numbers of a vector, 1 to 1023 (one place is for the weight).
    hidden : tuple of int
        Widths of the deep network's layers.
    dropout : float
        Behind each of these layers, in [0, 1).
    cross_layers, cross_rank : int
        Of ``dcn``: layers, and the rank of their weights.
    """

    vec_size: int = 8
    hidden: tuple[int, ...] = (128, 64)
    dropout: float = 0.0
    cross_layers: int = 2
    cross_rank: int = 16

    @classmethod
    def checked(cls, where: str, given: Mapping[str, Any]) -> Sizes:
        """Sizes of these values and defaults.

        Raises
        ------
        InvalidArgument
            When a name is unknown or a value out of bounds.
        """
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidArgument(
                    f"{where}there is no size {name!r}{did_you_mean(name, known)}; there are "
                    f"{', '.join(known)}"
                )
        sizes = replace(cls(), **given)
        check_int(where + "vec_size", sizes.vec_size, 1, 1023)
        hidden = tuple(check_ints(where + "hidden", list(sizes.hidden), 1))
        if not hidden:
            raise InvalidArgument(f"{where}hidden is empty: give a width a layer, such as (64, 32)")
        check_float(where + "dropout", sizes.dropout, 0.0, 0.999)
        check_int(where + "cross_layers", sizes.cross_layers, 1)
        check_int(where + "cross_rank", sizes.cross_rank, 1)
        return replace(sizes, hidden=hidden)
