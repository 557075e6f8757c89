# SPDX-License-Identifier: Apache-2.0
"""Models for prediction: rebuilt from a checkpoint alone, asked from any number of threads.

``load`` builds what a checkpoint's description says (``rebuilt``) and reads its weights and rows;
``prediction_model`` is what users hold; ``samples`` turns their data into what the core takes, for
``Model.predict`` too.
"""
