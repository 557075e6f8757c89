# SPDX-License-Identifier: Apache-2.0
"""Shape of the scratch of ops that sum over the batch."""


def partial_rows(batch: int) -> int:
    """Rows of partial sums: at least 256 samples each, at most 64 rows."""
    samples = max(256, -(-batch // 64))
    return -(-batch // samples)
