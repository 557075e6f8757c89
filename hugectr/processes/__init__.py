# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes."""

from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup

__all__ = ["ProcessGroup", "SoloGroup", "current"]


def current() -> ProcessGroup:
    """The group of this job: of one process."""
    return SoloGroup()
