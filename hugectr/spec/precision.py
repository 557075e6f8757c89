# SPDX-License-Identifier: Apache-2.0
"""In which numbers a model computes: mixed precision, loss scaling, tf32."""

from hugectr.base import log
from hugectr.base.arguments import check_choice
from hugectr.base.errors import rejected

#: Element types of mixed precision.
MIXED_PRECISION_TYPES = ("float16", "bfloat16", "fp8")
#: Smallest loss scale of float16 that needs no warning. v3 had 128, 256, 512 and 1024; v4 took
#: any, and 1 where none was given.
SMALLEST_SCALER = 128.0


def check_precision(where: str, mixed: bool, tf32: bool, kind: str, dynamic: bool) -> None:
    """Settings that fit together: mixed precision and tf32 exclude each other, and bfloat16, with
    the range of float32, is not scaled."""
    check_choice(where + "mixed_precision_type", kind, MIXED_PRECISION_TYPES)
    if mixed and tf32:
        raise rejected(
            f"{where}use_mixed_precision, enable_tf32_compute",
            (True, True),
            "at most one of the two set to True",
        )
    if mixed and kind != "float16" and dynamic:
        raise rejected(
            where + "dynamic_loss_scaling", dynamic, f"False with {kind}, which needs no scaling"
        )


def warn_of_small_scale(loss_scale: float) -> None:
    """Say what float16 loses where its static loss scale (0: there is none) is small."""
    if 0.0 < loss_scale < SMALLEST_SCALER:
        log.warning(
            f"scaler={loss_scale:g}: gradients below 3e-8 are zeros in float16; "
            "scaler=1024 or dynamic_loss_scaling=True keeps them"
        )
