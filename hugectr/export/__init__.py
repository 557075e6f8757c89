# SPDX-License-Identifier: Apache-2.0
"""Models for other programs: ONNX, PyTorch, and a reader of tables that needs NumPy alone."""

from hugectr.export.onnx_file import to_onnx
from hugectr.export.torch_module import to_torch

__all__ = ["to_onnx", "to_torch"]
