# SPDX-License-Identifier: Apache-2.0
"""Which rows a table has whose rows come and go, worked out from the batches alone."""

from fractions import Fraction

ONE_USE, MOST_USES = 256, 2**31 - 1


def faded(uses, kept, periods):
    """uses * (kept / 2^32)^periods, rounded down as the core does: a square at a time."""
    power = kept
    while periods:
        if periods & 1:
            uses = uses * power >> 32
        power = power * power >> 32
        periods >>= 1
    return uses


class Lives:
    """Rows by identity: [uses, step of the last use, admitted].

    Parameters
    ----------
    life : hugectr.spec.row_life.RowLife
    """

    def __init__(self, life):
        self.life = life
        self.rows = {}
        self.admitted = self.refused = self.evicted = 0
        self.gone = set()
        fades = life.evict == "lfu" and life.decay < 1.0
        self.kept = round(Fraction(life.decay) * 0xFFFFFFFF) if fades else None

    def _uses(self, row, step):
        if self.kept is None:
            return row[0]
        periods = max(0, step // self.life.evict_every - row[1] // self.life.evict_every)
        return faded(row[0], self.kept, periods)

    def train(self, identities, step, times=None):
        """A step on a batch with these (slot, key); ``times``: of the samples that have them."""
        latest = {}
        for name, time in zip(identities, times or [None] * len(identities), strict=True):
            latest[name] = max(latest.get(name, 0), time or 0)
        for name, time in latest.items():
            row = self.rows.setdefault(name, [0, 0, False])
            uses = self._uses(row, step) if row[2] else row[0]
            row[0] = min(uses + ONE_USE, MOST_USES)
            row[1] = max(row[1], time) if self.life.ttl_column else step
            if not row[2] and row[0] >= ONE_USE * self.life.admit_after:
                row[2] = True
                self.admitted += 1
        if step % self.life.evict_every == 0 and self.life.keeps_scores:
            self._evict(step)

    def _drop(self, names):
        for name in names:
            del self.rows[name]
            self.gone.add(name)
        return len(names)

    def _evict(self, step):
        life, rows = self.life, self.rows
        if life.ttl_column:
            old = max((row[1] for row in rows.values()), default=0) - life.ttl
            gone = [name for name, row in rows.items() if 0 < row[1] <= old]
            stale = [name for name in gone if not rows[name][2] and life.admit_after > 1]
            self.refused += self._drop(stale)
            self.evicted += self._drop([name for name in gone if name in rows])
        elif life.admit_after > 1:
            old = step - life.evict_every
            self.refused += self._drop([n for n, r in rows.items() if not r[2] and r[1] <= old])
        if life.evict == "ttl" and not life.ttl_column:
            self.evicted += self._drop([n for n, r in rows.items() if r[1] <= step - life.ttl])
        if life.evict == "none" or not life.max_rows or len(rows) <= life.max_rows:
            return
        surplus = len(rows) - (life.max_rows - life.max_rows // 10)

        def rank(name):
            row = rows[name]
            first = int(row[2])
            if row[2] and life.evict == "lfu":
                first = 1 + self._uses(row, step)
            slot, key = name
            return first, row[1], slot, key % 2**64

        self.evicted += self._drop(sorted(rows, key=rank)[:surplus])

    def scores(self):
        """Of all rows by (slot, key), as the core keeps them."""
        return [int(row[2]) << 63 | row[0] << 32 | row[1] for _, row in sorted(self.rows.items())]
