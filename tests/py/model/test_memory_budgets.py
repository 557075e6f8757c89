# SPDX-License-Identifier: Apache-2.0
"""Budgets of tables that are larger than any use there is for them, and such as are too small."""

import os
import re
import shutil

import pytest
from plan.test_tiers_of_models import make_model

import hugectr
from hugectr.plan import disk_room
from hugectr.plan.disk_room import DiskBudget, few_on_disks

#: Two devices and 256 samples of a key: 128 keys of a batch on each, rows of 128 bytes.
ROW, PLACE, KEYS = 128, 136, 128


def trained(memory, **table):
    model = make_model(memory, **table)
    model.compile()
    assert all(model.train() for _ in range(3))
    return model


@pytest.mark.parametrize("below", ["disk", "host"])
@pytest.mark.parametrize("table", [{}, {"max_rows": 10**6, "evict": "lru"}])
def test_budgets_of_more_rows_than_a_device_can_have_are_bounds(below, table, tmp_path):
    small = {"host": "2MB", "disk": f"{tmp_path}:2TB"}
    memory = hugectr.Memory(device="80KB", **(small if below == "disk" else {"host": "4TB"}))
    trained(memory, **table)
    plan = make_model(memory, **table).plan({"items": 2000})
    assert plan.memory.tables[0].rows == 2000
    assert plan.memory.lacking == ()
    too_many = make_model(memory).plan({"items": 2**34}).memory.lacking
    assert re.search(r"may have 4294967294, the most that a device can have: use more", too_many[0])


def test_the_smallest_budget_that_is_named_is_enough():
    model = make_model(hugectr.Memory(device="1KB"))
    model.compile()
    with pytest.raises(hugectr.OutOfMemory) as error:
        model.train()
    found = re.search(
        r"at least (\d+) bytes, which hold any two batches of (\d+) keys", str(error.value)
    )
    assert found
    assert int(found[1]) == 2 * int(found[2]) * PLACE
    model = make_model(hugectr.Memory(device=int(found[1])))
    model.compile()
    assert all(model.train() for _ in range(16))


@pytest.mark.parametrize("below", ["host", "disk"])
def test_a_table_on_one_device_has_the_whole_budget(below, tmp_path):
    """Of its process, however many devices that has; copies on both have a half each."""

    def made(placement, size):
        memory = hugectr.Memory(device="80KB", host=size)
        if below == "disk":
            memory = hugectr.Memory(device="80KB", host="400KB", disk=f"{tmp_path}:{size}B")
        return make_model(memory, placement=placement, max_vocabulary_size_per_gpu=0)

    rows, least = {"items": 40_000}, {}
    for placement in ("one_device", "replicated"):
        said = made(placement, 4 * 10**6).plan(rows).memory.lacking[0]
        assert "'items': 40000 rows were asked for on a device" in said
        least[placement] = int(re.search(r"has to be at least (\d+) bytes", said)[1])
        assert made(placement, least[placement]).plan(rows).memory.lacking == ()
        assert made(placement, least[placement] // 2).plan(rows).memory.lacking != ()
    assert least["replicated"] == 2 * least["one_device"]
    model = made("one_device", least["one_device"])
    model.compile()
    assert all(model.train() for _ in range(3))


def test_a_plan_says_which_places_are_too_few():
    plan = make_model(hugectr.Memory(device="1KB")).plan({"items": 4000}, fits=True)
    said = plan.memory.lacking[0]
    assert "'items': Memory(device=) has places for 7 rows" in said
    assert f"two batches of {KEYS} keys there may have as many as {2 * KEYS}" in said
    assert f"at least {2 * KEYS * PLACE} bytes" in said
    assert not plan.fits.fits
    assert "it fits" not in str(plan)
    assert str(plan).count(said) == str(plan.fits).count(said) == 1
    enough = make_model(hugectr.Memory(device=2 * KEYS * PLACE)).plan({"items": 4000}, fits=True)
    assert enough.fits.fits
    assert enough.memory.lacking == ()


@pytest.mark.parametrize("below", ["disk", "host"])
def test_a_plan_says_which_rows_are_too_many(below, tmp_path):
    def memory(size):
        if below == "host":
            return hugectr.Memory(device="80KB", host=size)
        return hugectr.Memory(device="80KB", host="400KB", disk=f"{tmp_path}:{size}B")

    rows = 200_000
    small = make_model(memory(8 * 10**6)).plan({"items": rows}, fits=True)
    said = small.memory.lacking[0]
    found = re.search(rf"Memory\({below}=\).* has to be at least (\d+) bytes", said)
    assert found, said
    assert f"'items': {rows // 2} rows were asked for on a device" in said
    assert not small.fits.fits
    assert small.memory.to_dict()["lacking"] == [said]
    enough = make_model(memory(int(found[1]))).plan({"items": rows}, fits=True)
    assert enough.memory.lacking == ()
    assert enough.fits.fits
    assert int(found[1]) < 1.6 * rows * ROW


def test_other_bounds_name_themselves():
    model = make_model(hugectr.Memory(device="80KB", host="1GB"), max_vocabulary_size_per_gpu=5000)
    said = model.plan({"items": 20_000}).memory.lacking[0]
    assert "may have 5000: raise workspace_size_per_gpu_in_mb or max_vocabulary_size" in said
    assert "has to be" not in said


def test_budgets_of_a_disk_are_compared_with_what_is_free(tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path).free
    memory = hugectr.Memory(device="80KB", host="2MB", disk=f"{tmp_path}/not/there:{2 * free}B")
    plan = make_model(memory).plan({"items": 2000}, fits=True)
    assert "Memory(disk=) of 'items' may take" in plan.memory.warnings[0]
    assert "warning: Memory(disk=)" in str(plan)
    assert plan.fits.fits
    assert not os.path.exists(f"{tmp_path}/not")
    monkeypatch.setattr(disk_room.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 2, 7))
    one, two = (DiskBudget(name, str(tmp_path), 4) for name in ("one", "two"))
    assert few_on_disks([one]) == []
    assert "'one', 'two' may take 8 bytes" in few_on_disks([one, two])[0]


@pytest.mark.parametrize("size", ["99999999TB", "9" * 400 + "B", 10**30])
def test_sizes_beyond_all_bytes_name_the_argument(size, tmp_path):
    for name, given in (
        ("device", {"device": size}),
        ("host", {"device": 1, "host": size}),
        (
            "disk",
            {"device": 1, "host": 1, "disk": f"{tmp_path}:{size}" + "B" * isinstance(size, int)},
        ),
    ):
        with pytest.raises(
            hugectr.InvalidArgument, match=rf"Memory: {name}: .*9223372036854775807"
        ):
            hugectr.Memory(**given)


def test_a_folder_of_the_home_is_not_one_that_is_called_so():
    for folder in ("~/rows", "~", "~somebody/rows"):
        with pytest.raises(hugectr.InvalidArgument, match=r"Memory: disk.*expanduser"):
            hugectr.Memory(device=1, host=1, disk=f"{folder}:64MB")
    assert hugectr.Memory(device=1, host=1, disk="./~/rows:64MB").disk == "./~/rows:64MB"
