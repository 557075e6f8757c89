# SPDX-License-Identifier: Apache-2.0
"""Whether there is a torch that the modules can stand on."""

from __future__ import annotations

#: Where ``torch.library.custom_op`` begins.
MINIMUM = (2, 4)


def require_torch() -> None:
    """See to it that torch is there.

    Raises
    ------
    ImportError
        With the way out, when it is missing or too old.
    """
    way_out = "pip install 'hugectr[torch]'"
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"hugectr.torch needs PyTorch, which is not installed: {way_out}"
        ) from error
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found < MINIMUM:
        raise ImportError(
            f"hugectr.torch needs PyTorch {'.'.join(map(str, MINIMUM))} or later, found "
            f"{torch.__version__}: {way_out}"
        )
