# SPDX-License-Identifier: Apache-2.0
"""Reports of a training run as one HTML file that needs nothing else.

Needs jinja2: ``pip install hugectr[report]``.
"""

from hugectr.report.html import Chart, KeyFigure, Series, Share, Table, TrainingReport, write_html

__all__ = ["Chart", "KeyFigure", "Series", "Share", "Table", "TrainingReport", "write_html"]
