# SPDX-License-Identifier: Apache-2.0
"""In which numbers a model computes: mixed precision, loss scaling, tf32."""

from hugectr.base.arguments import check_choice
from hugectr.base.errors import rejected

#: Element types of mixed precision.
MIXED_PRECISION_TYPES = ("float16", "bfloat16")
#: Smallest static loss scale of float16; v3 had 128, 256, 512 and 1024, v4 larger ones too.
SMALLEST_SCALER = 128.0


def check_precision(
    where: str, mixed: bool, scaler: float, tf32: bool, kind: str, dynamic: bool
) -> None:
    """Settings that fit together.

    Mixed precision and tf32 exclude each other. float16 takes a scaler of at least 128, or scales
    dynamically; bfloat16 has the range of float32 and needs neither.
    """
    check_choice(where + "mixed_precision_type", kind, MIXED_PRECISION_TYPES)
    if mixed and tf32:
        raise rejected(
            f"{where}use_mixed_precision, enable_tf32_compute",
            (True, True),
            "at most one of the two set to True",
        )
    if mixed and kind == "bfloat16" and dynamic:
        raise rejected(
            where + "dynamic_loss_scaling", dynamic, "False with bfloat16, which needs no scaling"
        )
    if mixed and kind == "float16" and not dynamic and scaler < SMALLEST_SCALER:
        raise rejected(
            f"{where}scaler",
            scaler,
            "128, 256, 512 or 1024, or more, with mixed precision in float16 "
            "(dynamic_loss_scaling=True finds one; bfloat16 needs none)",
        )
