# SPDX-License-Identifier: Apache-2.0
"""A catalogue of models, each made for the data at hand from ``schema.input_layer()``."""

from hugectr.models.catalogue import NAMES, add, description
from hugectr.models.sizes import Sizes
from hugectr.models.target import Target

__all__ = ["NAMES", "Sizes", "Target", "add", "description"]
