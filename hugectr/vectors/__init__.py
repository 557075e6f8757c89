# SPDX-License-Identifier: Apache-2.0
"""Embedding vectors for other purposes: by key, by nearness, and as files."""
