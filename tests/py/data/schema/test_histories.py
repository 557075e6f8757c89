# SPDX-License-Identifier: Apache-2.0
"""Sequences that are the history of a column: shared keys, one input, text, files, groups."""

import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.data import CategoricalField, GroupField, LabelField, Schema, SequenceField

FRAME = {
    "item": [3, 4, 5, 3, 9, None],
    "seen": [[4, 3], [5], None, [], [3, 4, 5, 3], [9, 9]],
    "bought": [[], [5], [3], [], [3], [9]],
    "clicked": [1, 0, 1, 1, 0, 0],
}
BOTH = {"seen": "item", "bought": "item"}


def rows_of(schema: Schema, data: object) -> list[list[list[int]]]:
    """Keys of input ``item``: a list a sample of a list a slot."""
    keys, offsets = schema.encode(data, labels=False).sparse["item"]
    slots = [keys[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    return [slots[i : i + 3] for i in range(0, len(slots), 3)]


def wanted(schema: Schema) -> list[list[list[int]]]:
    def keys(values: list[int | None]) -> list[int]:
        return [schema.key_of("item", value) for value in values]

    columns = zip(FRAME["item"], FRAME["seen"], FRAME["bought"], strict=True)
    return [
        [keys([item]), keys([None] if seen is None else seen), keys(bought)]
        for item, seen, bought in columns
    ]


def test_a_target_and_its_histories_share_keys_and_an_input() -> None:
    schema = Schema.infer(FRAME, "clicked", sequences=BOTH)
    (one,) = schema.input_layer().sparse
    assert (one.name, one.fields) == ("item", ("item", "seen", "bought"))
    assert (one.nnz_per_slot, one.histories) == ((1, 4, 1), ("seen", "bought"))
    assert rows_of(schema, FRAME) == wanted(schema)
    assert schema.key_of("seen", 9) == schema.key_of("item", 9)
    # 9 comes once as an item, and 5 once in each: together often enough for rows of their own.
    rare = schema.key_of("item", 12345)
    assert rare not in [schema.key_of("item", value) for value in (3, 4, 5, 9, None)]
    assert Schema.infer(FRAME, "clicked", categorical=["item"]).key_of("item", 9) == rare


def test_text_is_split_and_files_give_the_same(tmp_path: Path) -> None:
    lines = ["item,seen,bought,clicked"]
    for row in zip(*FRAME.values(), strict=True):
        item, seen, bought, clicked = row
        texts = ["" if one is None else "|".join(map(str, one)) for one in (seen, bought)]
        lines.append(f"{'' if item is None else item},{texts[0]},{texts[1]},{clicked}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    pq.write_table(pa.table(FRAME), tmp_path / "rows.parquet")
    schema = Schema.infer(FRAME, "clicked", sequences=BOTH)
    assert rows_of(schema, str(tmp_path / "rows.parquet")) == wanted(schema)
    of_text = Schema.infer(str(tmp_path / "rows.csv"), "clicked", sequences=BOTH)
    found = rows_of(of_text, str(tmp_path / "rows.csv"))
    expected = wanted(of_text)
    # A missing sequence, and an empty one, are the same in CSV: one key, that of what is missing.
    empty = [[], [of_text.key_of("item", None)]]
    for row, other in zip(found, expected, strict=True):
        assert row[0] == other[0]
        assert all(a == b or (a in empty and b in empty) for a, b in zip(row, other, strict=True))


def test_it_is_saved_and_old_schemas_are_read(tmp_path: Path) -> None:
    fields = [
        CategoricalField("item", vocabulary=True, min_count=1),
        SequenceField("seen", target="item", max_length=2),
        SequenceField("bought"),
        LabelField("clicked"),
    ]
    schema = Schema(fields).fit(FRAME)
    schema.save(tmp_path)
    again = Schema.load(tmp_path)
    assert again.fields == schema.fields
    assert again.value_of("seen", again.key_of("item", 4)) == 4
    assert again.input_layer() == schema.input_layer()
    assert again.encode(FRAME).sparse["item"][0].tolist() == (
        schema.encode(FRAME).sparse["item"][0].tolist()
    )
    said = {one["name"]: one for one in json.loads(schema.to_json())["fields"]}
    assert said["seen"]["target"] == "item"
    assert "target" not in said["bought"]  # as before there were targets
    assert len(list(tmp_path.glob("*.known.*"))) == 2  # that of item and seen is one file


def test_long_sequences_keep_their_last_steps() -> None:
    frame = {"item": [1, 2] * 40, "seen": [[*range(70)]] * 80, "y": [0, 1] * 40}
    schema = Schema.infer(frame, "y", sequences={"seen": "item"})
    assert schema.input_layer().sparse[0].nnz_per_slot == (1, 50)
    keys, offsets = schema.encode(frame).sparse["item"]
    assert offsets[:3].tolist() == [0, 1, 51]
    assert keys[1:51].tolist() == [schema.key_of("item", value) for value in range(20, 70)]


def test_a_group_may_be_a_feature_too(tmp_path: Path) -> None:
    frame = {"user": [7, 7, 8, 8], "y": [0, 1, 1, 0]}
    both = Schema.infer(frame, "y", group="user", categorical=["user"])
    assert both.input_layer().group == "user"
    assert both.input_layer().sparse[0].fields == ("user",)
    assert both.encode(frame).group.tolist() == [7, 7, 8, 8]
    both.save(tmp_path)
    assert Schema.load(tmp_path).fields == both.fields
    alone = Schema.infer(frame, "y", group="user")
    assert alone.input_layer().sparse == ()
    changed = both.replace(CategoricalField("user", min_count=3))
    assert changed.fields == (CategoricalField("user", min_count=3), *both.fields[1:])
    assert GroupField("user") in changed.fields


@pytest.mark.parametrize(
    ("sequences", "text"),
    [
        ({"seen": "itme"}, "did you mean 'item'"),
        ({"sean": "item"}, "did you mean 'seen'"),
        ({"seen": "clicked"}, "allowed: a CategoricalField of the schema"),
        ({"seen": 3}, "sequences"),
        ({"item": None}, "not lists"),
        (3, "sequences"),
    ],
)
def test_what_can_not_be_is_refused(sequences: object, text: str) -> None:
    with pytest.raises((hugectr.InvalidArgument, hugectr.DataError), match=text):
        Schema.infer(FRAME, "clicked", sequences=sequences)  # type: ignore[arg-type]


def test_settings_of_shared_categories_are_the_targets() -> None:
    with pytest.raises(hugectr.InvalidArgument, match=r"min_count: found 5.*that of 'item'"):
        SequenceField("seen", target="item", min_count=5)


def test_keys_do_not_depend_on_how_data_is_cut() -> None:
    rng = np.random.default_rng(3)
    frame = pa.table(
        {
            "seen": [rng.integers(0, 40, n).tolist() for n in rng.integers(0, 6, 500)],
            "item": rng.integers(0, 40, 500),
            "clicked": rng.integers(0, 2, 500),
        }
    )
    whole = Schema.infer(frame, "clicked", sequences={"seen": "item"})
    parts = [frame.slice(100 * i, 100).to_batches() for i in range(5)]
    pieces = pa.Table.from_batches([batch for part in parts for batch in part])
    assert pieces.column("item").num_chunks == 5
    cut = Schema.infer(pieces, "clicked", sequences={"seen": "item"})
    assert cut.to_json() == whole.to_json()
    joined = np.concatenate([b.sparse["item"][0] for b in whole.encode_batches(frame, rows=64)])
    assert joined.tolist() == whole.encode(frame).sparse["item"][0].tolist()
