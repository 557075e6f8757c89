# SPDX-License-Identifier: Apache-2.0
"""Everything public says what it is: ``help()`` and the reference have nothing else."""

import enum
import importlib
import inspect
from collections.abc import Iterator

from test_public_names import MODULES, is_ours


def says_nothing(text: str | None) -> bool:
    """Whether this is no docstring, or sends to a file that ``help()`` does not show."""
    return not (text or "").strip() or "_core.pyi" in str(text)


def silent_members(name: str, kind: type) -> Iterator[str]:
    """Public members without a docstring, that of a base where they replace one included."""
    for member in dir(kind):
        value = inspect.getattr_static(kind, member)
        function = value.fget if isinstance(value, property) else value
        function = getattr(function, "__func__", function)
        described = inspect.isroutine(function) or isinstance(value, property)
        if member.startswith("_") or not described or not is_ours(function):
            continue
        if says_nothing(inspect.getdoc(getattr(kind, member))):
            yield f"{name}.{member}"


def silent(module_name: str) -> Iterator[str]:
    """Public things of a module that say nothing."""
    module = importlib.import_module(module_name)
    if says_nothing(module.__doc__):
        yield module_name
    for name in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, name)
        if name.startswith("_") or not callable(value) or not is_ours(value):
            continue
        described = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        if says_nothing(described):
            yield f"{module_name}.{name}"
        if inspect.isclass(value) and not issubclass(value, enum.Enum):
            yield from silent_members(f"{module_name}.{name}", value)


def test_everything_public_has_a_docstring():
    assert [name for module in MODULES for name in silent(module)] == []
