# SPDX-License-Identifier: Apache-2.0
"""What every layer type does in evaluation, as operations of a program: a function a type."""

from hugectr.export.layers.layer import Layer
from hugectr.export.layers.registry import LAYERS, write_layer

__all__ = ["LAYERS", "Layer", "write_layer"]
