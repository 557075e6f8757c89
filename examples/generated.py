# SPDX-License-Identifier: Apache-2.0
"""Data with a planted signal, as arrays: each function draws the same samples every time.

NumPy alone, so that the same nets can be trained on the same samples in other libraries
(``tests/py/references/examples.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]

FIELDS, CATEGORIES, DENSE = 8, 50, 5
USERS, FILMS = 150, 100
ITEMS, HISTORY, GROUPS = 300, 10, 12
VISITS, PAGES = 8, 100
VISITORS, COUNTRIES, GOODS, MAKERS = 300, 10, 200, 20


def _drawn(rng: np.random.Generator, logit: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    return (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.float32)


def _products(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sum of the dot products of all pairs of (n, fields, d)."""
    total = vectors.sum(1)
    return 0.5 * ((total * total).sum(1) - (vectors * vectors).sum((1, 2)))


def clicks(samples: int = 81920, pairs: float = 0.35) -> Arrays:
    """Eight fields and five numbers; the logit has terms of fields, pairs of them, and numbers.

    Parameters
    ----------
    samples : int
    pairs : float
        Deviation of the hidden vectors whose products the pairs add.

    Returns
    -------
    dict
        ``label`` (n), ``dense`` (n, 5), ``keys`` (n, 8): field f has keys 50 f to 50 f + 49;
        ``signal`` (n): the logit that labels were drawn from.
    """
    rng = np.random.default_rng(11)
    keys = rng.integers(0, CATEGORIES, (samples, FIELDS)) + np.arange(FIELDS) * CATEGORIES
    dense = rng.normal(size=(samples, DENSE))
    weight = rng.normal(size=FIELDS * CATEGORIES) * 0.5
    vectors = rng.normal(size=(FIELDS * CATEGORIES, 3)) * pairs
    logit = weight[keys].sum(1) + _products(vectors[keys]) + dense @ rng.normal(size=DENSE) * 0.3
    label = _drawn(rng, logit)
    return {"label": label, "dense": dense.astype(np.float32), "keys": keys, "signal": logit}


def ratings(samples: int = 81920) -> Arrays:
    """Users and items with four hidden features each: who likes what.

    Returns
    -------
    dict
        ``label`` (n), ``user`` (n), ``item`` (n, FILMS keys behind those of users), ``signal`` (n).
    """
    rng = np.random.default_rng(12)
    user, item = rng.integers(0, USERS, samples), rng.integers(0, FILMS, samples)
    of_user, of_item = rng.normal(size=(USERS, 4)), rng.normal(size=(FILMS, 4))
    bias = rng.normal(size=FILMS) * 0.5
    logit = 0.8 * (of_user[user] * of_item[item]).sum(1) + bias[item]
    return {"label": _drawn(rng, logit), "user": user, "item": item + USERS, "signal": logit}


def histories(samples: int = 81920, groups: int = GROUPS) -> Arrays:
    """A target and what somebody looked at before: of the target's group, lately, makes a click.

    Parameters
    ----------
    samples : int
    groups : int
        Of the items; fewer are found sooner.

    Returns
    -------
    dict
        ``label`` (n), ``target`` (n), ``history`` (n, 10) oldest first, of which the first
        ``length`` (n) count and the others are -1; ``signal`` (n).
    """
    rng = np.random.default_rng(13)
    group = rng.integers(0, groups, ITEMS)
    target = rng.integers(0, ITEMS, samples)
    length = rng.integers(1, HISTORY + 1, samples)
    likes = rng.integers(0, groups, (samples, 2))  # what a person looks at
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(groups + 1))
    chosen = np.take_along_axis(likes, rng.integers(0, 2, (samples, HISTORY)), 1)
    sizes = first[chosen + 1] - first[chosen]
    history = order[first[chosen] + (rng.random((samples, HISTORY)) * sizes).astype(int)]
    half = rng.random(samples) < 0.5  # half of the targets are of a group they like
    liked = order[first[likes[:, 0]]]
    target = np.where(half, liked, target)
    there = np.arange(HISTORY) < length[:, None]
    age = length[:, None] - 1 - np.arange(HISTORY)
    match = (group[history] == group[target][:, None]) & there
    logit = 2.5 * (match * 0.7 ** np.maximum(age, 0)).sum(1) - 1.5
    history = np.where(there, history, -1)
    label = _drawn(rng, logit)
    return {"label": label, "target": target, "history": history, "length": length, "signal": logit}


def two_tasks(samples: int = 81920) -> Arrays:
    """Clicks with a second label, a purchase, whose logit shares half of what makes a click.

    Returns
    -------
    dict
        As of ``clicks``, with ``label`` and ``signal`` (n, 2).
    """
    found = clicks(samples)
    rng = np.random.default_rng(14)
    weight = rng.normal(size=FIELDS * CATEGORIES) * 0.5
    second = 0.6 * found["signal"] + weight[found["keys"]].sum(1)
    label = np.stack([found["label"], _drawn(rng, second)], 1)
    return {**found, "label": label, "signal": np.stack([found["signal"], second], 1)}


def visits(samples: int = 425984) -> Arrays:
    """What people visit one after the other: mostly one of four items that follow the last one, or
    the one before it.

    Returns
    -------
    dict
        That of ``visit_arrays``, and ``signal`` (2): the hit rate and NDCG, at 10, of who knows
        which items follow.
    """
    rng = np.random.default_rng(15)
    follows = rng.integers(0, PAGES, (PAGES, 4))
    path = rng.integers(0, PAGES, (samples, VISITS + 1))
    for t in range(1, VISITS + 1):
        back = np.where(rng.random(samples) < 0.8, t - 1, max(t - 2, 0))
        known = follows[path[np.arange(samples), back], rng.integers(0, 4, samples)]
        path[:, t] = np.where(rng.random(samples) < 0.85, known, path[:, t])
    length = rng.integers(VISITS // 2, VISITS + 1, samples)
    there = np.arange(VISITS) < length[:, None]
    history, following = (np.where(there, p, -1) for p in (path[:, :-1], path[:, 1:]))
    arrays = visit_arrays(history, following, length, PAGES)
    last = np.arange(samples), length - 1
    score = np.zeros((samples, PAGES), np.float32)
    for back, chance in ((length - 1, 0.8), (length - 2, 0.2)):
        for item in follows[history[np.arange(samples), back]].T:
            score[np.arange(samples), item] += chance
    held = slice(-held_out(samples), None)
    arrays["signal"] = np.array(ranked(score[held], following[last][held]))
    return arrays


def choices(samples: int = 60000) -> Arrays:
    """Who chose what: people have a taste of their own and their country's, goods one of theirs and
    their maker's, and some are popular.

    Returns
    -------
    dict
        ``user``, ``country``, ``item``, ``maker`` (n); ``country_of`` (VISITORS), ``maker_of``
        (GOODS): what belongs to what; ``signal`` (2): the hit rate and NDCG, at 10, of who knows
        all tastes.
    """
    rng = np.random.default_rng(17)
    country_of = rng.integers(0, COUNTRIES, VISITORS)
    maker_of = rng.integers(0, MAKERS, GOODS)
    of_user = rng.normal(size=(VISITORS, 4)) + rng.normal(size=(COUNTRIES, 4))[country_of]
    of_item = rng.normal(size=(GOODS, 4)) + rng.normal(size=(MAKERS, 4))[maker_of]
    logit = 0.6 * of_user @ of_item.T + rng.normal(size=GOODS) * 0.5
    chance = np.exp(logit - logit.max(1, keepdims=True)).astype(np.float32)
    chance /= chance.sum(1, keepdims=True)
    user = rng.integers(0, VISITORS, samples)
    below = chance.cumsum(1)[user] < rng.random((samples, 1))
    item = np.minimum(below.sum(1), GOODS - 1)
    held = slice(-held_out(samples), None)
    return {
        "user": user,
        "country": country_of[user],
        "item": item,
        "maker": maker_of[item],
        "country_of": country_of,
        "maker_of": maker_of,
        "signal": np.array(ranked(chance[user[held]], item[held])),
    }


def visit_arrays(
    history: npt.NDArray[Any], following: npt.NDArray[Any], length: npt.NDArray[Any], items: int
) -> Arrays:
    """What a model of the next item learns from.

    Returns
    -------
    dict
        ``history`` (n, 8) oldest first, ``following`` (n, 8): what came after each, ``other`` (n,
        8): any item, all -1 behind ``length`` (n); ``label`` (n, 16): 1 for ``following``, 0 for
        ``other``, -1 behind the last; ``dense`` (n, 8): how many steps each step sees, itself
        included, 0 behind the last.
    """
    there = history >= 0
    other = np.random.default_rng(16).integers(0, items, history.shape)
    label = np.concatenate([np.where(there, 1, -1), np.where(there, 0, -1)], 1)
    return {
        "label": label.astype(np.float32),
        "dense": (there.cumsum(1) * there).astype(np.float32),
        "history": history,
        "following": following,
        "other": np.where(there, other, -1),
        "length": length,
    }


def held_out(samples: int) -> int:
    """How many samples, the last ones, are evaluated."""
    return min(16384, samples // 5)


def liked(
    arrays: Arrays, score: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Scores of all items for each liked one of the evaluated ratings, and which that is.

    Parameters
    ----------
    arrays : dict
        Of ``ratings``; the last 4,000 liked ones at most count.
    score : callable
        (m, 2) pairs of user and item -> (m) scores.
    """
    held = held_out(len(arrays["label"]))
    user, item = (
        arrays[name][-held:][arrays["label"][-held:] > 0][-4000:] for name in ("user", "item")
    )
    users, items = np.unique(user), np.unique(arrays["item"])
    pairs = np.stack([users.repeat(len(items)), np.tile(items, len(users))], 1)
    scores = score(pairs).reshape(len(users), len(items))
    return scores[np.searchsorted(users, user)], np.searchsorted(items, item)


def ranked(
    score: npt.NDArray[Any], target: npt.NDArray[Any], first: int = 10
) -> tuple[float, float]:
    """HitRate and NDCG at ``first``: where the target (n) is by its score among all (n, items)."""
    of_target = np.take_along_axis(score, target[:, None], 1)
    place = (score > of_target).sum(1) + ((score == of_target).sum(1) - 1) / 2
    hit = place < first
    return float(hit.mean()), float((hit / np.log2(place + 2)).mean())


def day(number: int, samples: int) -> Arrays:
    """What happened on a day: users of 2,000, and items of 1,000, of which 300 were not there the
    day before; a click is a matter of who and what.

    Parameters
    ----------
    number : int
    samples : int
    """
    rng = np.random.default_rng(number)
    hidden = np.random.default_rng(7).normal(size=1_000_000)  # of users and items
    user = rng.integers(0, 2000, samples)
    item = 2000 + 300 * number + rng.integers(0, 1000, samples)
    click = _drawn(rng, hidden[user] + 1.5 * hidden[item])
    return {"click": click, "user": user, "item": item}


def auc(label: npt.NDArray[Any], score: npt.NDArray[Any]) -> float:
    """Area under the ROC curve, ties counted half."""
    values, place = np.unique(score, return_inverse=True)
    positive = np.bincount(place, label, len(values))
    negative = np.bincount(place, 1 - label, len(values))
    below = np.cumsum(negative) - negative / 2
    return float((positive * below).sum() / (positive.sum() * negative.sum()))
