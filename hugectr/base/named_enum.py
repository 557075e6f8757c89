# SPDX-License-Identifier: Apache-2.0
"""What the enums of the public API have in common."""

from enum import Enum, EnumMeta

from hugectr.base.errors import did_you_mean


class _NamedEnumMeta(EnumMeta):
    """A member that there is not names the near one and all."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("_"):  # what Python itself looks for
            raise AttributeError(name)
        members = list(cls.__members__)
        raise AttributeError(
            f"{cls.__name__} has no member {name!r}{did_you_mean(name, members)}; "
            f"it has: {', '.join(members)}"
        )


class NamedEnum(Enum, metaclass=_NamedEnumMeta):
    """Prints as ``Check_t.Sum``, short enough for error messages."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return repr(self)
