# SPDX-License-Identifier: Apache-2.0
"""The model: put together, trained, timed, saved, looked into; and the older Session."""
