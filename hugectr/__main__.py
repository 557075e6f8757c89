# SPDX-License-Identifier: Apache-2.0
"""``python -m hugectr``: the same as the ``hugectr`` command."""

import sys

from hugectr.command.cli import main

sys.exit(main())
