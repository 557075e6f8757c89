# SPDX-License-Identifier: Apache-2.0
"""Finds what would run code that lies in data: unpickling, eval; exit code 1 if there is any.

Run: python tools/check_no_code_from_data.py [ROOT]
What a program reads (files, sockets, arguments) is data. Values travel as JSON or as bytes of
``hugectr.processes.values``, arrays as NumPy files without objects, weights of other libraries with
``weights_only=True``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("hugectr", "benchmarks", "examples", "scripts", "tools")
#: Modules whose readers run what the data says; so they are not imported at all.
MODULES = {
    "pickle", "_pickle", "cPickle", "pickletools", "dill", "cloudpickle", "joblib", "marshal",
    "shelve", "jsonpickle", "code", "codeop",
}  # fmt: skip
BUILTINS = {"eval", "exec", "compile", "__import__"}
#: Functions of a module: what they must be told so that they run nothing; "" stands for never.
CALLS = {
    "torch.load": "weights_only=True",
    "yaml.load": "",
    "yaml.load_all": "",
    "yaml.full_load": "",
    "yaml.unsafe_load": "",
    "pandas.read_pickle": "",
    "pd.read_pickle": "",
}
#: Calls of mpi4py that pickle; those with a capital letter take buffers.
PICKLING_MPI = {
    "send", "isend", "ssend", "issend", "bsend", "recv", "irecv", "mrecv", "sendrecv", "bcast",
    "gather", "allgather", "scatter", "alltoall", "reduce", "allreduce", "scan", "exscan",
}  # fmt: skip
CYTHON = re.compile(
    r"^\s*(?:c?import|from)\s+(?:" + "|".join(sorted(MODULES)) + r")\b"
    r"|(?<![\w.])(?<!def )(?:eval|exec|__import__)\s*\(|allow_pickle\s*=\s*(?!False)|torch\.load",
    re.MULTILINE,
)


def check(root: Path) -> list[str]:
    """All findings."""
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if name.startswith(("hugectr/include/", "hugectr/lib/")):  # put there by the build
                continue
            if path.suffix in (".py", ".pyi"):
                found += check_python(name, path.read_text(encoding="utf-8"))
            elif path.suffix in (".pyx", ".pxi"):  # a .pxd runs nothing
                found += check_cython(name, path.read_text(encoding="utf-8"))
    return found


def check_cython(name: str, text: str) -> list[str]:
    """Findings of a file that only Cython can parse."""
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group().strip()}"
        for match in CYTHON.finditer(text)
    ]


def check_python(name: str, text: str) -> list[str]:
    """Findings of a file."""
    tree = ast.parse(text)
    mpi = any("mpi4py" in module for node in ast.walk(tree) for module in imported(node))
    return [
        f"{name}:{getattr(node, 'lineno', 0)}: {what}"
        for node in ast.walk(tree)
        for what in findings(node, mpi)
    ]


def imported(node: ast.AST) -> list[str]:
    """Modules that a statement, or a call with a name in it, imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and dotted(node.func).endswith("import_module"):
        return [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    return []


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an expression, as far as it is names."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def findings(node: ast.AST, mpi: bool) -> Iterator[str]:
    """What is wrong with one node."""
    for module in imported(node):
        if module.partition(".")[0] in MODULES:
            yield f"import of {module}"
        elif CALLS.get(module) is not None:  # from torch import load: the call could not be seen
            yield f"import of {module} by its own name"
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in BUILTINS:
        yield f"{node.id}: code in a text"
    elif isinstance(node, ast.Attribute) and dotted(node).removeprefix("builtins.") in BUILTINS:
        yield f"{dotted(node)}: code in a text"
    elif isinstance(node, ast.Call):
        yield from of_call(node, mpi)


def of_call(node: ast.Call, mpi: bool) -> Iterator[str]:
    """What is wrong with a call."""
    name = dotted(node.func)
    told = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
    if told.get("allow_pickle", "False") != "False":
        yield f"{name}(allow_pickle={told['allow_pickle']})"
    if name in ("np.load", "numpy.load") and len(node.args) > 2:
        yield f"{name}: name its arguments, one of them is allow_pickle"
    needs = CALLS.get(name)
    if needs is not None and (not needs or told.get(needs.partition("=")[0]) != "True"):
        yield f"{name} without {needs}" if needs else name
    if mpi and isinstance(node.func, ast.Attribute) and node.func.attr in PICKLING_MPI:
        yield f"{name}: this call of mpi4py pickles; {node.func.attr.capitalize()} takes buffers"


if __name__ == "__main__":
    lines = check(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
