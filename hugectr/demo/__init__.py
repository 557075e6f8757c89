# SPDX-License-Identifier: Apache-2.0
"""Wide & Deep on the Adult data, from files to a report: ``python -m hugectr demo``."""

from hugectr.demo.run import TARGET_AUC, DemoResult, add_arguments, main, run_demo, run_from_args

__all__ = ["TARGET_AUC", "DemoResult", "add_arguments", "main", "run_demo", "run_from_args"]
