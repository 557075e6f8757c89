# SPDX-License-Identifier: Apache-2.0
"""The CUDA plug-in of hugectr, which finds ``libhugectr_cuda.so`` here by itself."""
