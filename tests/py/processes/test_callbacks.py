# SPDX-License-Identifier: Apache-2.0
"""Callbacks in a job: all stop when one says so, each gets its best rows back, one writes files."""

import json

import pytest
from oracle.small_data import generate
from processes import job


@pytest.mark.parametrize("engine", ["launch", "mpi"])
def test_callbacks_in_a_job(tmp_path, engine):
    data = tmp_path / "data"
    generate(data, "Norm")
    script = job.TESTS / "processes" / "callbacks_job.py"
    status, out, err = job.run(engine, 2, script, tmp_path, data / "Norm")
    assert status == 0, f"{out}\n{err}"
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    for one in found:
        assert one["stopped"] == "process 1 has seen enough"
        assert one["steps"] == 30
        assert one["best_again"]
        assert one["rows"] > 0
    # Numbers of tables: each process has its own, and all have those of the job.
    for one in found:
        for t, table in enumerate(one["stats_of_job"]):
            for name, total in table.items():
                assert total == sum(each["stats"][t][name] for each in found), name
        rows = sum(table["rows"] for table in one["stats_of_job"])
        assert rows > sum(table["rows"] for table in one["stats"])
        both = sum(each["parameters"] for each in found) - one["dense"]
        assert one["parameters_of_job"] == both
    assert [one["step"] for one in found[0]["evaluations"]] == [11, 21, 30]
    assert found[0]["evaluations"] == found[1]["evaluations"]
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["step", "10", "11", "20", "21", "30", "30"]
