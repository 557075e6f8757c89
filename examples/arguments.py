# SPDX-License-Identifier: Apache-2.0
"""What every example takes on the command line."""

import argparse


def _steps(text: str) -> int:
    """A number of steps, 0 for the example's."""
    steps = int(text)
    if steps < 0:
        raise ValueError
    return steps


_parser = argparse.ArgumentParser()
_parser.add_argument("--data", nargs="*", metavar="FILE", help="files of the real set (README.md)")
_parser.add_argument(
    "--steps", type=_steps, default=0, help="of training, instead of the example's"
)
_parser.add_argument("--seed", type=int, default=1, help="other first weights")
_parser.add_argument("--summary", action="store_true", help="print the layers")
ARGUMENTS = _parser.parse_args()
