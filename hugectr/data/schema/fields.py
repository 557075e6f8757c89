# SPDX-License-Identifier: Apache-2.0
"""What a column can be: one dataclass a kind. How each is computed is in the module of its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hugectr.base.arguments import check_bool, check_choice, check_float, check_int, check_str
from hugectr.base.errors import rejected

#: Categories a field remembers at most, 8 bytes each.
MOST_KNOWN = 50_000_000
CYCLES = {"hour": 24, "weekday": 7}
UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Field:
    """What all kinds have: the name of the column."""

    name: str
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        check_str(f"{type(self).__name__}: name", self.name, empty=False)

    @property
    def where(self) -> str:
        """How complaints about its settings begin."""
        return f"{type(self).__name__}({self.name!r}): "


@dataclass(frozen=True)
class LabelField(Field):
    """What is predicted: a number in every row.

    Parameters
    ----------
    name : str
        Name of the column: numbers or booleans, without gaps.
    """

    kind: ClassVar[str] = "label"


@dataclass(frozen=True)
class DenseField(Field):
    """A number that is measured or counted.

    A value is filled where it is missing, then ``log``, then scaled.

    Parameters
    ----------
    name : str
        Name of the column: numbers, or text of numbers. Null and NaN are missing.
    fill : {"mean", "median"} or float
        What stands for a missing value. Of more than 65,536 rows the median is that of 65,536 of
        them, always the same ones.
    indicator : bool
        Whether a second dense feature, ``<name> is missing``, says 1 where the value is missing.
    scaling : {"standard", "min-max", "none"}
        ``(x - mean) / standard deviation``, or ``(x - min) / (max - min)``, of what fit() saw;
        later values may lie outside. A column of one value becomes 0, and values later differ
        from 0 by as much as from that one.
    log : bool
        Signed logarithm, ``sign(x) log(1 + |x|)``: for numbers of very different size.
    """

    kind: ClassVar[str] = "dense"
    fill: str | float = "mean"
    indicator: bool = False
    scaling: str = "standard"
    log: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.fill, str):
            check_choice(self.where + "fill", self.fill, ("mean", "median"))
        else:
            object.__setattr__(self, "fill", check_float(self.where + "fill", self.fill))
        check_bool(self.where + "indicator", self.indicator)
        check_choice(self.where + "scaling", self.scaling, ("standard", "min-max", "none"))
        check_bool(self.where + "log", self.log)


@dataclass(frozen=True)
class CategoricalField(Field):
    """One category a row: text, integers, booleans, floats that stand for them (1.0 is 1).

    Missing values (null, NaN) are a category of their own. So are all categories that fit() saw
    fewer than ``min_count`` times, together with those it never saw: the field's rare category.

    Parameters
    ----------
    name : str
        Name of the column.
    values : {"text", "numbers"} or None
        What a value is compared as; None: as fit() finds the column, which of CSV is text. As text,
        7 is "7"; as numbers, "7" is 7, and text that is no number is an error.
    min_count : int
        Categories seen at least so often in fit() get a row of their own. With 1 no row is trained
        for categories that come later.
    max_known : int
        Most distinct values that fit() remembers (8 bytes each). Where it meets more, every
        category has its own row, and those that were not trained read a vector of zeros.
    vocabulary : bool
        Whether the values are kept too, so that ``Schema.value_of`` finds the value of a key.
    """

    kind: ClassVar[str] = "categorical"
    values: str | None = None
    min_count: int = 2
    max_known: int = MOST_KNOWN
    vocabulary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None:
            check_choice(self.where + "values", self.values, ("text", "numbers"))
        check_int(self.where + "min_count", self.min_count, 1, 2**62)
        check_int(self.where + "max_known", self.max_known, 0, 2**40)
        check_bool(self.where + "vocabulary", self.vocabulary)

    @property
    def owner(self) -> str:
        """The column whose categories these are: its own, or the one that it shares them with."""
        return self.name


@dataclass(frozen=True)
class ListField(CategoricalField):
    """Any number of categories a row (multi-hot), from lists or from text with a separator.

    A missing list has one key, that of missing; an empty one (or empty text) has none.

    Parameters
    ----------
    name, values, min_count, max_known, vocabulary
        As of CategoricalField.
    separator : str or None
        What stands between the categories of a text, such as ``"|"``; None: the column has lists.
    max_length : int or None
        Categories of a row that count, the first ones; None: as many as the longest list in fit().
    """

    kind: ClassVar[str] = "list"
    separator: str | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.separator is not None:
            check_str(self.where + "separator", self.separator, empty=False)
        if self.max_length is not None:
            check_int(self.where + "max_length", self.max_length, 1, 1 << 20)


@dataclass(frozen=True)
class SequenceField(ListField):
    """Categories in an order, oldest first, such as what a user has looked at.

    As a ListField, with the order kept; of longer ones the last ``max_length`` count.

    Parameters
    ----------
    name, values, min_count, max_known, vocabulary, separator, max_length
        As of ListField.
    target : str or None
        The CategoricalField that these are the history of, such as the item that is shown now. Both
        then have the same keys, learnt from both columns, and are slots of one sparse input, called
        by the target: one table has the vectors of the target and of its history. ``values``,
        ``min_count``, ``max_known`` and ``vocabulary`` are those of the target.
    """

    kind: ClassVar[str] = "sequence"
    target: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target is None:
            return
        check_str(self.where + "target", self.target, empty=False)
        for name in ("values", "min_count", "max_known", "vocabulary"):
            value = getattr(self, name)
            if value != getattr(SequenceField, name):
                raise rejected(self.where + name, value, f"that of {self.target!r}; say it there")

    @property
    def owner(self) -> str:
        """As of CategoricalField."""
        return self.target or self.name


@dataclass(frozen=True)
class WeightField(Field):
    """How much a row counts: a number from 0 on, without gaps."""

    kind: ClassVar[str] = "weight"


@dataclass(frozen=True)
class TimestampField(Field):
    """A point in time, kept as int64 nanoseconds since 1970 in UTC (missing: -2**63).

    Parameters
    ----------
    name : str
        Name of the column: timestamps (without a zone: UTC), dates, ISO 8601 text, or numbers.
    cyclic : tuple of {"hour", "weekday"}
        Dense features made of it, two each: sine and cosine (of UTC; both 0 where it is missing).
    unit : {"s", "ms", "us", "ns"}
        What numbers count.
    zoned : bool or None
        Whether times say their zone. True: all must; False: none may; what does otherwise is an
        error, for its hours would be other ones. None: both may, and those without are UTC. Of no
        effect on dates and numbers. ``Schema.infer`` says what it finds first.
    """

    kind: ClassVar[str] = "timestamp"
    cyclic: tuple[str, ...] = ()
    unit: str = "s"
    zoned: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        cyclic: object = self.cyclic
        if not isinstance(cyclic, tuple | list):
            raise rejected(self.where + "cyclic", self.cyclic, f"a tuple of {sorted(CYCLES)}")
        for cycle in self.cyclic:
            check_choice(self.where + "cyclic", cycle, tuple(CYCLES))
        object.__setattr__(self, "cyclic", tuple(dict.fromkeys(self.cyclic)))
        check_choice(self.where + "unit", self.unit, UNITS)
        if self.zoned is not None:
            check_bool(self.where + "zoned", self.zoned)


@dataclass(frozen=True)
class GroupField(Field):
    """What rows belong together, such as the query or the user: integers, or text (hashed)."""

    kind: ClassVar[str] = "group"


@dataclass(frozen=True)
class IgnoredField(Field):
    """A column that is not used.

    Parameters
    ----------
    name : str
    reason : str
        Why, for those who print the schema.
    """

    kind: ClassVar[str] = "ignored"
    reason: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_str(self.where + "reason", self.reason)


KINDS: dict[str, type[Field]] = {
    one.kind: one
    for one in (
        LabelField,
        DenseField,
        CategoricalField,
        ListField,
        SequenceField,
        WeightField,
        TimestampField,
        GroupField,
        IgnoredField,
    )
}
