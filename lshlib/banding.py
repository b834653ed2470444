"""Banding: signatures to buckets, and the choice of bands and rows.

A signature of bands * rows numbers is cut into bands; two texts meet in a bucket when they agree in all
rows of a band. The chance of that against similarity is the S-curve (Mining of Massive Datasets, 3.4).
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from .hashing import STAFFORD_1, constants, mix

LENGTH_LIMIT = 4096  # bands x rows beyond it are refused
_USUAL_LENGTH = 100  # the textbook's K; among choices up to it the sharpest curve wins


class Choice(NamedTuple):
    """A pair of bands and rows, and what it does to pairs at and below a threshold."""

    bands: int
    rows: int
    recall: float  # chance to meet at the threshold
    at_half: float  # chance to meet at half of it
    false_area: float  # mean chance to meet over similarities from 0 to the threshold

    @property
    def length(self):
        return self.bands * self.rows


def collision_chance(similarity, bands, rows):
    """The chance that two texts of this similarity share a bucket: 1 - (1 - s^rows)^bands.

    >>> round(collision_chance(0.8, bands=20, rows=5), 4)
    0.9996
    """
    return 1 - (1 - similarity**rows) ** bands


def curve_threshold(bands, rows):
    """The similarity where the S-curve is steepest, about: (1 / bands)^(1 / rows).

    >>> round(curve_threshold(bands=16, rows=4), 4)
    0.5
    """
    return (1 / bands) ** (1 / rows)


@cache
def describe(threshold, bands, rows):
    """The `Choice` of these bands and rows for a threshold."""
    below = (np.arange(1000) + 0.5) / 1000 * threshold
    return Choice(
        bands,
        rows,
        collision_chance(threshold, bands, rows),
        collision_chance(threshold / 2, bands, rows),
        float(collision_chance(below, bands, rows).mean()),
    )


def choices(threshold, recall):
    """For each number of rows the fewest bands with this recall at the threshold, as `Choice`s.

    >>> [(c.bands, c.rows) for c in choices(0.8, 0.995)][:6]
    [(4, 1), (6, 2), (8, 3), (11, 4), (14, 5), (18, 6)]
    """
    found = []
    for rows in range(1, LENGTH_LIMIT + 1):
        # log1p: threshold**rows may be far below the spacing of floats near 1
        band_misses = math.log1p(-(threshold**rows)) if threshold < 1 else -math.inf
        # an odd rounding must not add a band
        exact = math.log(1 - recall) / band_misses - 1e-9 if band_misses else math.inf
        bands = max(1, math.ceil(exact)) if exact < LENGTH_LIMIT else math.inf
        if bands * rows > LENGTH_LIMIT:
            break
        found.append(describe(threshold, bands, rows))
        if threshold == 1 and bands * rows >= _USUAL_LENGTH:
            break
    return found


@cache
def best_choice(threshold, recall):
    """The choice with the fewest false candidates among signatures of up to 100 numbers.

    Where none is that short, the shortest. ValueError where none is below 4096 numbers.

    >>> best_choice(0.8, 0.995)[:2]
    (14, 5)
    """
    found = choices(threshold, recall)
    if not found:
        raise ValueError(
            f"no bands x rows up to {LENGTH_LIMIT} finds pairs at threshold {threshold:g} "
            f"with chance {recall:g}"
        )
    usual = [choice for choice in found if choice.length <= _USUAL_LENGTH]
    if usual:
        return min(usual, key=lambda choice: choice.false_area)
    return min(found, key=lambda choice: choice.length)


def bucket_keys(signatures, bands, rows):
    """The bucket of each text in each band, as uint64 (texts, bands).

    A key hashes the band's number and the values of its rows to 64 bits, so that buckets of all bands
    can share one table.

    >>> keys = bucket_keys(np.array([[1, 2, 1, 2], [1, 2, 2, 1]], np.uint32), bands=2, rows=2)
    >>> (keys[0] == keys[1]).tolist(), bool(keys[0, 0] == keys[0, 1])
    ([True, False], False)
    """
    points = np.array([pow(int(STAFFORD_1), j, 2**64) for j in range(rows)], np.uint64)
    # scrambled first: a polynomial of plain minima could be equal for related rows
    values = mix(signatures[:, : bands * rows].astype(np.uint64)).reshape(-1, bands, rows)
    return mix(values @ points + constants(bands, seed=bands))
