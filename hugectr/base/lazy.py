# SPDX-License-Identifier: Apache-2.0
"""Names of a package that are loaded when they are first used.

``import hugectr`` is paid by every program, also by one that prints its help; what takes long to
load (pyarrow, rich, the processes behind a data generator) is loaded by who uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package (PEP 562).

    The package says the same names to type checkers below ``if TYPE_CHECKING``;
    ``tests/py/base/test_lazy.py`` compares the two and ``__all__``.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to sequence of str
        Module -> the public names it has. A module of the package itself can be had by its own
        name as well, as if it had been imported.

    Returns
    -------
    tuple of two functions
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        """The name, which is an ordinary one of the package from now on."""
        home = home_of.get(name)
        if home is not None:
            value = getattr(import_module(home), name)
        elif f"{package}.{name}" in homes:
            return import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        """All names, loaded or not."""
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, names
