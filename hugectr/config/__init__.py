# SPDX-License-Identifier: Apache-2.0
"""Models as JSON: full configs and graph files, read into descriptions and written from them."""
