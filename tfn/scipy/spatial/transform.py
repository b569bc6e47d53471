"""Rotations in space: `Rotation`, one or a stack of them, and `Slerp` between them.

A rotation is a quaternion (x, y, z, w) of length 1; q and -q are the same one.

Sources: J. B. Kuipers, "Quaternions and rotation sequences", 1999; K. Shoemake, "Animating rotation
with quaternion curves", 1985; E. Bernardes and S. Viollet, "Quaternion to Euler angles conversion",
2022; F. L. Markley et al., "Averaging quaternions", 2007.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfn import numpy as jnp
from tfn import random
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import frozen, operands, unfit
from tfn.random import KeyLike
from tfn.tree import register_dataclass

SMALL_ANGLE = 1e-3
"""Below, a series of the sine is as precise as its quotient, and has a derivative at 0."""


def _floating(name: str, x: ArrayLike, *sizes: int) -> Array:
    """A floating array whose last axes have these sizes, after at most one more."""
    value = operands.array_of(name, x) / 1
    if value.shape[-len(sizes) :] != sizes or value.ndim - len(sizes) not in (0, 1):
        raise unfit(f"{name} needs one of {sizes}, or a stack of them", (value,), "see its shape")
    return value


def _cross(a: Array, b: Array) -> Array:
    return jnp.cross(a, b)


def _product(p: Array, q: Array) -> Array:
    """The quaternion of q, then p."""
    (u, a), (v, b) = ((x[..., :3], x[..., 3:]) for x in (p, q))
    vector = a * v + b * u + _cross(u, v)
    return jnp.concatenate([vector, a * b - (u * v).sum(-1, keepdims=True)], -1)


def _normal(q: Array) -> Array:
    return q / jnp.sqrt((q * q).sum(-1, keepdims=True))


@register_dataclass
@frozen
class Rotation:
    """A rotation, or a stack of rotations; a pytree.

    Attributes:
        quat: quaternions (x, y, z, w), the last axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
        >>> turn.apply(tnp.array([1.0, 2.0, 3.0])).round(3).tolist()
        [-2.0, 1.0, 3.0]
    """

    quat: Array

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """The rotations of quaternions (x, y, z, w), of any length but 0."""
        return cls(_normal(_floating("from_quat", quat, 4)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """The rotations of orthogonal matrices of determinant 1."""
        m = _floating("from_matrix", matrix, 3, 3)
        x, y, z = (m[..., i, i] for i in range(3))
        trace = x + y + z
        # Four forms, each of which divides by another part: that of the largest is taken.
        a, b, c = m[..., 2, 1], m[..., 0, 2], m[..., 1, 0]
        d, e, f = m[..., 1, 2], m[..., 2, 0], m[..., 0, 1]
        forms = jnp.stack(
            [
                jnp.stack([1 - trace + 2 * x, c + f, b + e, a - d], -1),
                jnp.stack([c + f, 1 - trace + 2 * y, a + d, b - e], -1),
                jnp.stack([b + e, a + d, 1 - trace + 2 * z, c - f], -1),
                jnp.stack([a - d, b - e, c - f, 1 + trace], -1),
            ],
            -2,
        )
        best = jnp.argmax(jnp.stack([x, y, z, trace], -1), -1)
        chosen = jnp.take_along_axis(forms, best[..., None, None], -2)[..., 0, :]
        return cls(_normal(chosen))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotations about vectors, by angles that are their lengths."""
        v = _floating("from_rotvec", rotvec, 3)
        v = v * (math.pi / 180) if degrees else v
        square = (v * v).sum(-1, keepdims=True)
        near = square < SMALL_ANGLE**2
        angle = jnp.sqrt(jnp.where(near, 1, square))
        series = 0.5 - square / 48 + square * square / 3840
        scale = jnp.where(near, series, jnp.sin(angle / 2) / angle)
        w = jnp.where(near, 1 - square / 8 + square * square / 384, jnp.cos(angle / 2))
        return cls(jnp.concatenate([v * scale, w], -1))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """The rotations of modified Rodrigues parameters, vectors of a quarter of the angle."""
        v = _floating("from_mrp", mrp, 3)
        square = (v * v).sum(-1, keepdims=True)
        return cls(jnp.concatenate([2 * v, 1 - square], -1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotations about axes one after the other.

        Args:
            seq: up to three axes: "xyz" of space, "XYZ" of the body, which turns.
            angles: one for each axis, the last axis; or one for each rotation about a single axis.
            degrees: whether angles are in degrees.

        Raises:
            ArgumentError: for other letters, or a mixture of both kinds.
            ShapeError: unless there is an angle for each axis.
        """
        axes, of_body = _axes(seq)
        turns = operands.array_of("from_euler", angles) / 1
        if len(axes) == 1 and turns.ndim < 2:
            turns = turns[..., None]
        if turns.ndim > 2 or turns.shape[-1:] != (len(axes),):
            raise unfit("from_euler needs an angle for each axis", (turns,), f"seq={seq!r}")
        turns = turns * (math.pi / 180) if degrees else turns
        total: Any = None
        for i, axis in enumerate(axes):
            half = turns[..., i] / 2
            parts = [jnp.zeros_like(half)] * 3
            parts[axis] = jnp.sin(half)
            one = jnp.stack([*parts, jnp.cos(half)], -1)
            if total is None:
                total = one
            else:
                total = _product(total, one) if of_body else _product(one, total)
        return cls(total)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that leaves all as it is, or a stack of them."""
        one = jnp.array([0.0, 0.0, 0.0, 1.0]).astype(dtype)
        return cls(one if num is None else jnp.broadcast_to(one, (num, 4)))

    @classmethod
    def random(cls, random_key: KeyLike, num: int | None = None) -> Rotation:
        """A rotation drawn uniformly, or a stack of them."""
        shape = (4,) if num is None else (num, 4)
        return cls(_normal(random.normal(random_key, shape)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """All rotations as one stack."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether it is one rotation, and no stack."""
        return self.quat.ndim == 1

    def __len__(self) -> int:
        if self.single:
            raise unfit("a single rotation has no length", (self.quat,), "take a stack of them")
        return self.quat.shape[0]

    def __getitem__(self, item: Any) -> Any:
        if self.single:
            raise unfit("a single rotation has no parts", (self.quat,), "take a stack of them")
        return Rotation(self.quat[item])

    def __mul__(self, other: Any) -> Any:
        """The rotation by `other`, then by this one."""
        return Rotation(_normal(_product(*jnp.broadcast_arrays(self.quat, other.quat))))

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions; `canonical` ones have a positive w, or next part that is not 0."""
        q = self.quat
        if canonical:
            x, y, z, w = (q[..., i] for i in range(4))
            lead = jnp.where(w != 0, w, jnp.where(x != 0, x, jnp.where(y != 0, y, z)))
            q = jnp.where(lead[..., None] < 0, -q, q)
        return jnp.concatenate([q[..., 3:], q[..., :3]], -1) if scalar_first else q

    def as_matrix(self) -> Array:
        """The orthogonal matrices."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, -1) for row in rows], -2)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """The axes, by the angles from 0 to pi long."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        v, w = q[..., :3], q[..., 3:]
        square = (v * v).sum(-1, keepdims=True)
        near = square < (SMALL_ANGLE / 2) ** 2
        size = jnp.sqrt(jnp.where(near, 1, square))
        quotient = 2 * jnp.arctan2(size, w) / size
        ratio = square / (w * w)
        series = 2 / w * (1 - ratio / 3 + ratio * ratio / 5)
        result = v * jnp.where(near, series, quotient)
        return result * (180 / math.pi) if degrees else result

    def as_mrp(self) -> Array:
        """The modified Rodrigues parameters, within the unit sphere."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles about three axes, as of `from_euler`; the second is from 0, or -pi/2, on.

        Raises:
            ArgumentError: unless there are three axes, and neighbours differ.
        """
        axes, of_body = _axes(seq)
        if len(axes) != 3 or axes[0] == axes[1] or axes[1] == axes[2]:
            raise ArgumentError(
                "as_euler needs three axes, of which neighbours differ", got=f"seq={seq!r}"
            )
        i, j, k = axes[::-1] if of_body else axes
        proper = i == k
        k = 3 - i - j if proper else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = self.quat
        w = q[..., 3]
        if proper:
            a, b, c, d = w, q[..., i], q[..., j], q[..., k] * sign
        else:
            a, b = w - q[..., j], q[..., i] + q[..., k] * sign
            c, d = q[..., j] + w, q[..., k] * sign - q[..., i]
        second = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        # Where the outer axes coincide only the sum, or the difference, is known: one angle is 0.
        tiny = 1e-7
        at_zero, at_pi = abs(second) <= tiny, abs(second - math.pi) <= tiny
        lost = at_zero | at_pi
        outer = half_sum - half_difference
        inner = half_sum + half_difference
        free = jnp.where(at_zero, 2 * half_sum, 2 * half_difference * (1 if of_body else -1))
        if of_body:
            first, last = jnp.where(lost, 0, outer), jnp.where(lost, free, inner)
        else:
            first, last = jnp.where(lost, free, outer), jnp.where(lost, 0, inner)
        if not proper:
            last, second = last * sign, second - math.pi / 2
        if of_body:
            first, last = last, first
        angles = jnp.stack([first, second, last], -1)
        turned = jnp.stack([first, jnp.zeros_like(second), last], -1)
        wrapped = jnp.where(turned < -math.pi, angles + 2 * math.pi, angles)
        wrapped = jnp.where(turned > math.pi, angles - 2 * math.pi, wrapped)
        return wrapped * (180 / math.pi) if degrees else wrapped

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """The vectors after the rotation, or before it: one for each, or all by one."""
        v = _floating("apply", vectors, 3)
        m = self.as_matrix()
        m = jnp.matrix_transpose(m) if inverse else m
        return (m @ v[..., None])[..., 0]

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], -1))

    def magnitude(self) -> Array:
        """The angle, from 0 to pi."""
        v = self.quat[..., :3]
        return 2 * jnp.arctan2(jnp.sqrt((v * v).sum(-1)), abs(self.quat[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The mean of a stack: the rotation that is nearest to all, by the squares of chords."""
        q = jnp.atleast_2d(self.quat)
        shares = (
            jnp.ones(q.shape[0], q.dtype) if weights is None else operands.array_of("mean", weights)
        )
        if shares.shape != (q.shape[0],):
            raise unfit("mean needs a weight for each rotation", (q, shares), "a vector")
        _, vectors = jnp.linalg.eigh((q * shares.astype(q.dtype)[:, None]).T @ q)
        return Rotation(vectors[:, -1])


def _axes(seq: str) -> tuple[list[int], bool]:
    """The axes by number, and whether they are those of the body."""
    letters = seq.lower() if isinstance(seq, str) else ""
    one_kind = isinstance(seq, str) and seq in (letters, letters.upper())
    if not one_kind or not 1 <= len(letters) <= 3 or set(letters) - set("xyz"):
        raise ArgumentError(
            "axes are up to three letters of 'xyz', or of 'XYZ'",
            got=f"seq={seq!r}",
            hint="small letters for axes of space, capital ones for those of the body",
        )
    return ["xyz".index(letter) for letter in letters], seq != letters


class Slerp(NamedTuple):
    """A rotation that depends on time: between given ones it turns at a constant rate.

    Attributes:
        times: ascending.
        rotations: at these times.
        rotvecs: from each to the next.
    """

    times: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The interpolation of rotations at times.

        Raises:
            ShapeError: unless there are two rotations at least, and a time for each.

        Example:
            >>> import tfn.numpy as tnp
            >>> turns = Rotation.from_euler("z", tnp.array([0.0, 90.0]), degrees=True)
            >>> middle = Slerp.init(tnp.array([0.0, 1.0]), turns)(0.5)
            >>> middle.as_euler("xyz", degrees=True).round(3)[2].item()
            45.0
        """
        line = operands.array_of("Slerp", times) / 1
        if rotations.single or len(rotations) < 2 or line.shape != (len(rotations),):
            raise ShapeError(
                "Slerp needs two rotations at least, and a time for each",
                got=f"times {line.shape}, rotations {rotations.quat.shape}",
            )
        first, second = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(line, rotations, (first.inv() * second).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at times; outside of those given the nearest one goes on."""
        now = operands.array_of("Slerp", times).astype(self.times.dtype)
        place = jnp.searchsorted(self.times, now, side="right") - 1
        place = jnp.clip(place, 0, self.times.size - 2)
        part = (now - self.times[place]) / (self.times[place + 1] - self.times[place])
        turn = Rotation.from_rotvec(self.rotvecs[place] * part[..., None])
        found: Rotation = Rotation(self.rotations.quat[place]) * turn
        return found
