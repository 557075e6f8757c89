# SPDX-License-Identifier: Apache-2.0
"""What a server of a model needs to follow its training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class IncrementalRows(tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]):
    """Rows of a table that changed: the pair (keys, vectors), and what a pair has no place for.

    Take ``gone_keys`` away first (or everything, where ``whole``), then put the rows in: the server
    has then what the model has.

    Attributes
    ----------
    slot_ids : ndarray of uint64 (n), or None
        Where slots are part of what makes a row another row.
    gone_keys : ndarray of int64 (m)
        Keys of rows that went: evicted, or erased. Some may have come and gone since the last
        call, so that the server never had them.
    gone_slot_ids : ndarray of uint64 (m), or None
    whole : bool
        These are all rows there are; what the server has of others is to go.
    """

    slot_ids: npt.NDArray[np.uint64] | None
    gone_keys: npt.NDArray[np.int64]
    gone_slot_ids: npt.NDArray[np.uint64] | None
    whole: bool

    def __new__(
        cls,
        rows: Any,
        gone: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64] | None],
        whole: bool,
    ) -> IncrementalRows:
        """Of rows as the core names them, and those that went."""
        made = super().__new__(cls, (rows["keys"], rows["vectors"]))
        made.slot_ids = rows["slot_ids"]
        made.gone_keys, made.gone_slot_ids = gone
        made.whole = whole
        return made
