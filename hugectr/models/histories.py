# SPDX-License-Identifier: Apache-2.0
"""What models of sequences begin with: a target and its histories, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from hugectr.base.errors import InvalidArgument
from hugectr.models.network import Network


@dataclass(frozen=True)
class History:
    """A target and one of its histories. All but ``most`` and ``name`` are names of tensors.

    Attributes
    ----------
    name : str
        Of layers made for it.
    target : str
        (batch, width).
    steps : str
        (batch, most * width): oldest first, zeros behind the last.
    one, length : str
        (batch, 1): 1, and how many steps there are.
    most : int
        Most steps.
    """

    name: str
    target: str
    steps: str
    one: str
    length: str
    most: int

    def mask(self, net: Network) -> str:
        """1 for each step that is there, 0 behind the last, (batch, most)."""
        longest = {"max_sequence_len_from": 1, "max_sequence_len_to": self.most}
        mask = net.layer("SequenceMask", [self.one, self.length], f"{self.name}/mask", **longest)
        return net.layer("Reshape", [mask], f"{self.name}/there", leading_dim=self.most)

    def match(self, net: Network, interest: str) -> tuple[str, str]:
        """The target times an interest of its width, (batch, width), and what the sum of that, the
        product of a factorization machine, adds to the logit.

        Parameters
        ----------
        net : Network
        interest : str
            What was made of the steps.
        """
        match = net.layer("ElementwiseMultiply", [interest, self.target], f"{self.name}/match")
        product = net.layer("ReduceSum", [match], f"{self.name}/match/sum", axis=1)
        return match, net.logit(product, f"{self.name}/match") if net.outputs > 1 else product


def histories(net: Network, width: int, part: str) -> tuple[list[History], list[str]]:
    """A table for each target and its histories, and the vectors of all other columns.

    Parameters
    ----------
    net : Network
    width : int
        Of vectors.
    part : str
        Of the model; it is in messages too.

    Returns
    -------
    tuple of (list of History, list of str)
        And (batch, slots * width) of each sparse input without a history.

    Raises
    ------
    InvalidArgument
        When no column is the history of another one.
    """
    with_target = [one for one in net.inputs.sparse if one.histories and len(one.fields) > 1]
    if not with_target:
        raise InvalidArgument(
            f"models: {part}: no column of the data is the history of another one. Say which: "
            'sequences={"HISTORY": "TARGET"} with the names of both columns (or a SequenceField '
            "with a target in the schema); without a history use deepfm"
        )
    others = [one for one in net.inputs.sparse if one not in with_target]
    found = []
    for one in with_target:
        vectors, lengths = net.table(one, width, part, "concat"), one.lengths
        names = [f"{vectors}/{field}" for field in one.fields]
        flat = net.layer("Reshape", [vectors], f"{vectors}/flat", leading_dim=sum(lengths) * width)
        steps = net.slices(flat, [f"{n}/steps" for n in names], [n * width for n in lengths])
        counts = net.slices(f"{one.name}_lengths", [f"{n}/length" for n in names], [1] * len(names))
        for place in range(1, len(names)):
            of_history = steps[place], counts[0], counts[place], lengths[place]
            found.append(History(names[place], steps[0], *of_history))
    return found, net.flat_vectors(width, part, others)
