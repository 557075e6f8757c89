# SPDX-License-Identifier: Apache-2.0
"""What users import is there, takes the same arguments and has the same defaults as listed.

``public_names.txt`` is the list; a change to it is a change of the public API, for the changelog.
Write it anew: python tests/py/test_public_names.py
"""

import enum
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

LIST = Path(__file__).with_name("public_names.txt")

#: Modules that README.md, docs/ and examples/ name, and scripts written for the original import.
MODULES = (
    "hugectr",
    "hugectr.callbacks",
    "hugectr.cuda",
    "hugectr.data",
    "hugectr.data.planted",
    "hugectr.export",
    "hugectr.inference",
    "hugectr.interop",
    "hugectr.models",
    "hugectr.optimizer",
    "hugectr.processes",
    "hugectr.tools",
)


def is_ours(thing: object) -> bool:
    """Whether the package made it, and not the standard library or NumPy."""
    return (getattr(thing, "__module__", None) or "").partition(".")[0] == "hugectr"


def arguments(function: object) -> str:
    """Names, kinds and defaults of the arguments; annotations say where a type lives: left out."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(?)"
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def made_with(kind: type) -> str:
    """Arguments that make an object; empty where Python code does not say."""
    if inspect.isfunction(kind.__init__) and is_ours(kind.__init__):
        return arguments(kind.__init__)
    return arguments(kind) if inspect.isfunction(kind.__new__) and is_ours(kind.__new__) else ""


def members(name: str, kind: type) -> Iterator[str]:
    """The public members of a class that the package made, inherited ones included."""
    if issubclass(kind, enum.Enum):
        yield f"{name}: {', '.join(f'{one.name}={one.value!r}' for one in kind)}"
        return
    yield f"{name}{made_with(kind)}"
    for member in sorted(dir(kind)):
        owner = next(base for base in (*kind.__mro__, object) if member in vars(base))
        if member.startswith("_") or not is_ours(owner):
            continue
        value = getattr(kind, member)
        yield f"{name}.{member}{arguments(value) if callable(value) else ''}"


def public_names() -> list[str]:
    """A line for everything public, sorted in every module."""
    lines = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        exported = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module_name
        ]
        lines.append(f"[{module_name}]")
        for name in sorted(exported):
            value = getattr(module, name)
            if inspect.isclass(value) and is_ours(value):
                lines += members(name, value)
            elif inspect.ismodule(value):
                lines.append(f"{name} (module)")
            elif callable(value):
                lines.append(f"{name}{arguments(value)}")
            else:
                lines.append(name)
    return lines


def test_the_public_names_are_those_of_the_list():
    wanted = LIST.read_text(encoding="utf-8").splitlines()
    assert public_names() == wanted


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
