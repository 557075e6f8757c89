# SPDX-License-Identifier: Apache-2.0
from checkpoints.linked_nets import linked_run

__all__ = ["linked_run"]
