# SPDX-License-Identifier: Apache-2.0
"""What users may name as a placement is what the planner knows and can count."""

import hugectr
from hugectr.plan.cost import CostModel
from hugectr.plan.table_load import KINDS
from hugectr.spec.placement import PLACEMENTS


def test_every_placement_can_be_planned():
    assert PLACEMENTS is KINDS
    for kind in PLACEMENTS:
        assert callable(getattr(CostModel, f"_{kind}"))
        assert hugectr.Placement(kind).kind == kind
