# SPDX-License-Identifier: Apache-2.0
"""How long the rows of a table live: how many there may be, and which go when they are too many."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hugectr.base.arguments import check_float, check_int, check_str
from hugectr.base.errors import rejected

EVICTIONS = ("none", "lru", "lfu", "ttl")
#: Steps between two looks, where nothing else is said.
EVICT_EVERY = 1000
MOST_USES = 1 << 20
#: What is left of a use after ``evict_every`` steps, where nothing else is said. Without fading a
#: new key always has the fewest uses and goes again at once.
LFU_DECAY = 0.5


@dataclass(frozen=True)
class RowLife:
    """The arguments of ``SparseEmbedding`` that say how long rows live, checked.

    Attributes
    ----------
    max_rows, evict, ttl, decay, evict_every, admit_after, ttl_column
        As ``SparseEmbedding`` documents them.

    Notes
    -----
    With ``ttl_column`` lives go by the time of the data, never by a clock of the machine. It names
    a sparse input of one slot and one key: the time of each sample in whole seconds since 1970. A
    row has the latest time of the samples that used it, in whatever order they came; the clock is
    the latest time that rows of the table have. Behind every ``evict_every``-th step rows that are
    ``ttl`` seconds older go, candidates for admission among them, and of more than ``max_rows``
    those with the earliest time. A sample without a time leaves the times of its rows as they are.
    Rows whose time is not known do not expire, and are the first that ``max_rows`` lets go.
    """

    max_rows: int = 0
    evict: str = "none"
    ttl: int = 0
    decay: float | None = None
    evict_every: int = EVICT_EVERY
    admit_after: int = 1
    ttl_column: str = ""

    def __post_init__(self) -> None:
        if self.decay is None:
            object.__setattr__(self, "decay", self._usual_decay)

    @property
    def _usual_decay(self) -> float:
        return LFU_DECAY if self.evict == "lfu" else 1.0

    def check(self, where: str) -> RowLife:
        """The same, checked and in Python's own numbers; ``where`` begins the messages.

        Raises
        ------
        InvalidArgument
            Naming the argument, what was found and what is allowed.
        """
        max_rows = check_int(where + "max_rows", self.max_rows, 0, 1 << 48)
        if self.evict not in EVICTIONS:
            raise rejected(where + "evict", self.evict, "'none', 'lru', 'lfu' or 'ttl'")
        if self.evict in ("lru", "lfu") and not max_rows:
            allowed = f"at least 1: evict={self.evict!r} makes room when there are more rows"
            raise rejected(where + "max_rows", max_rows, allowed)
        ttl = check_int(where + "ttl", self.ttl, 0, 1 << 32)
        if self.evict == "ttl" and not ttl:
            raise rejected(where + "ttl", ttl, "at least 1 step, with evict='ttl'")
        if self.evict != "ttl" and ttl:
            raise rejected(where + "ttl", ttl, f"0 with evict={self.evict!r}; or evict='ttl'")
        check_str(where + "ttl_column", self.ttl_column)
        if self.ttl_column and self.evict != "ttl":
            allowed = f"'' with evict={self.evict!r}; or evict='ttl' and a ttl in seconds"
            raise rejected(where + "ttl_column", self.ttl_column, allowed)
        decay = check_float(where + "decay", self.decay, 0.0)
        if not 0.0 < decay <= 1.0:
            raise rejected(where + "decay", self.decay, "above 0, at most 1")
        if self.evict != "lfu" and decay != 1.0:
            raise rejected(where + "decay", self.decay, "1.0 unless evict='lfu'")
        return RowLife(
            max_rows=max_rows,
            evict=str(self.evict),
            ttl=ttl,
            decay=decay,
            evict_every=check_int(where + "evict_every", self.evict_every, 1, (1 << 32) - 1),
            admit_after=check_int(where + "admit_after", self.admit_after, 1, MOST_USES),
            ttl_column=str(self.ttl_column),
        )

    @property
    def keeps_scores(self) -> bool:
        """Whether the table notes when each row was used."""
        return self.evict != "none" or self.admit_after > 1

    def to_json(self) -> dict[str, Any]:
        """What is not as it is by itself, as JSON configs have it."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        values["decay"] = (self.decay, self._usual_decay)
        return {name: value for name, (value, usual) in values.items() if value != usual}
