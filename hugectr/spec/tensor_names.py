# SPDX-License-Identifier: Apache-2.0
"""The names of a model's tensors while its graph is put together."""

from collections.abc import Callable

from hugectr.base.errors import did_you_mean, rejected

#: What follows the name of a sparse input in that of its lengths.
LENGTHS = "_lengths"


class TensorNames:
    """Knows which names exist and how often each is read."""

    def __init__(self) -> None:
        self._readers: dict[str, int] = {}
        self._sparse: set[str] = set()
        self._lengths: set[str] = set()
        self._yielding: dict[str, Callable[[str], None]] = {}

    def define(self, where: str, name: str, *, sparse: bool = False) -> None:
        """A new tensor; an error when the name is taken."""
        if name in self._yielding:
            self._readers.pop(name)
            self.define_yielding(name, self._yielding.pop(name), taken=True)
        self.check_free(where, name)
        if sparse:
            self._sparse.add(name)
        else:
            self._readers[name] = 0

    def check_free(self, where: str, *names: str) -> None:
        """An error when a tensor that yields to none has one of the names."""
        for name in names:
            if name not in self._yielding and self._is_taken(name):
                raise rejected(where, name, "a name that no other tensor of the model has")

    def define_yielding(
        self, name: str, renamed: Callable[[str], None], *, taken: bool = False
    ) -> None:
        """A new tensor that is called otherwise when the name is taken, now or later.

        Parameters
        ----------
        name : str
        renamed : callable
            Is told every other name that the tensor gets.
        taken : bool
            Whether somebody is about to take the name.
        """
        found, number = name, 1
        while self._is_taken(found) or (taken and found == name):
            number += 1
            found = f"{name}_table" if number == 2 else f"{name}_table{number - 1}"
        self.define("", found)
        self._yielding[found] = renamed
        if found != name:
            renamed(found)

    def _is_taken(self, name: str) -> bool:
        return name in self._readers or name in self._sparse or name in self._lengths

    def read(self, where: str, name: str) -> None:
        """A layer reads a dense tensor; an error when there is none of that name."""
        if name in self._sparse:
            raise rejected(where, name, "a dense tensor; a sparse input needs a SparseEmbedding")
        if name not in self._readers and self._is_lengths(name):
            self._lengths.add(name)
            return
        if name not in self._readers:
            raise rejected(where, name, self._allowed(name, sorted(self._readers)))
        self._readers[name] += 1

    def read_sparse(self, where: str, name: str) -> None:
        """An embedding reads a sparse input; an error when there is none of that name."""
        if name not in self._sparse:
            raise rejected(where, name, self._allowed(name, sorted(self._sparse)))

    def _is_lengths(self, name: str) -> bool:
        """Whether it is the lengths of a sparse input: there for whoever reads them."""
        return name.endswith(LENGTHS) and name.removesuffix(LENGTHS) in self._sparse

    def _allowed(self, name: str, known: list[str]) -> str:
        return f"a tensor made before: {', '.join(known) or 'none yet'}{did_you_mean(name, known)}"
