# SPDX-License-Identifier: Apache-2.0
"""Tools around training: generated data sets."""

from hugectr.tools.data_generator import DataGenerator, DataGeneratorParams

__all__ = ["DataGenerator", "DataGeneratorParams"]
