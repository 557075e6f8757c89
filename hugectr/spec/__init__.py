# SPDX-License-Identifier: Apache-2.0
"""What a model is made of, as descriptions: solver, reader, optimizers, tables, layers."""
