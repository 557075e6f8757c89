# SPDX-License-Identifier: Apache-2.0
"""What predictions are worth: calibration, slices of the data, and what each field tells a model.

Labels are 0 or 1, predictions probabilities. Samples count by their weights, where they have some.
Nothing here knows a model.
"""
