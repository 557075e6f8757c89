# SPDX-License-Identifier: Apache-2.0
"""The labels of an Input, checked."""

from typing import Any

from hugectr.base.arguments import check_floats, check_int, check_ints, check_names, check_str
from hugectr.base.errors import rejected

#: Columns of a label: int32.
MOST_LABELS = 2**31 - 1


def checked_labels(
    where: str, dims: Any, names: Any, weights: Any
) -> tuple[list[int], list[str], list[float]]:
    """Columns, name and weight of every label.

    Parameters
    ----------
    where : str
        What messages begin with.
    dims, names
        Of one label a number and a string, else a list of each.
    weights
        One a label; None: 1 each.

    Raises
    ------
    InvalidArgument
        When they do not fit together.
    """
    if isinstance(names, str) or isinstance(dims, int):
        dims = [check_int(where + "label_dim", dims, 1, MOST_LABELS)]
        names = [check_str(where + "label_name", names, empty=False)]
    elif dims is None or names is None:
        raise rejected(where + "label_dims, label_names", (dims, names), "one of each a label")
    dims, names = (
        check_ints(where + "label_dims", dims, 1, MOST_LABELS),
        check_names(where + "label_names", names),
    )
    if not names or len(dims) != len(names):
        allowed = f"{len(names) or 'at least 1'}, as there are label_names"
        raise rejected(where + "label_dims", dims, allowed)
    if weights is None:
        weights = [1.0] * len(names)
    checked = check_floats(where + "label_weights", weights, 0.0)
    if len(checked) != len(names):
        raise rejected(where + "label_weights", weights, f"{len(names)} numbers, one a label")
    return dims, names, checked
