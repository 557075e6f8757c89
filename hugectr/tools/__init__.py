# SPDX-License-Identifier: Apache-2.0
"""Tools around training: generated data sets."""

from typing import TYPE_CHECKING

from hugectr.base.lazy import lazy_names

if TYPE_CHECKING:
    from hugectr.tools.data_generator import DataGenerator, DataGeneratorParams

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "hugectr.tools.data_generator": ("DataGenerator", "DataGeneratorParams"),
    },
)

__all__ = ["DataGenerator", "DataGeneratorParams"]
