# SPDX-License-Identifier: Apache-2.0
"""``python -m hugectr.demo``."""

import sys

from hugectr.demo.run import main

sys.exit(main(sys.argv[1:]))
