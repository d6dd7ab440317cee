"""The rule of batch_norm: channel sums in full, everything else element by element.

Integers (WAGEUBN Eq. 12 and Algorithm 2) are `spec.batch_norm`'s, float32 is `spec.float_batch_norm`'s. Sums
of codes are the definition's own over whole channels; sums of float32 are made by `chains`.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from intnet.spec import batch_norm as integer_norm
from intnet.spec import float32 as f32
from intnet.spec import float_batch_norm as float_norm
from intnet.spec import range_norm
from intnet.spec.tensor import power
from intnet.verify import chains
from intnet.verify.floats import fractions
from intnet.verify.record import Back, Call, What
from intnet.verify.rules.products import Conv, per_image
from intnet.verify.rules.rule import Elementwise, Rule, Source, shown
from intnet.verify.values import Near, Values, floats_of, is_float, shape_of

Sums = tuple[list[Fraction], list[Fraction]]  # two numbers a channel


class BatchNorm(Rule):
    """batch_norm; the paths inside are mu, sigma, x2 on the way forward, e2, m1, m2 on the way back."""

    exact: tuple[str, ...] = ("batch_norm.x3_at", "batch_norm.dx1_at", "batch_norm.moments_of")
    floats: tuple[str, ...] = ("float_batch_norm.forward", "float_batch_norm.backward")

    # -- what is inside -------------------------------------------------------------------------

    def inner_specs(self, what: What, path: str) -> tuple[str, ...]:
        """Of a path inside."""
        if is_float(what.call.operands[0]):
            return ("float_batch_norm.forward",)
        named = {"mu": "statistics_of", "sigma": "statistics_of", "x2": "x2_at"}
        named |= {"e2": "e2_at", "m1": "moments_of", "m2": "moments_of"}
        return (f"batch_norm.{named[path]}",)

    def inner(self, values: Values, what: What, path: str, flat: np.ndarray) -> Source:
        """The exact value of a path inside, before it is rounded."""
        if isinstance(what, Call):
            return self._forward_inner(values, what, path, flat)
        if path == "e2":
            return Source(self._scaled_error(values, what, flat))
        totals, count = self._error_sums(values, what)[path == "m2"], _count(what.gradient)
        factors = values.at(what.call.operands[1], flat)
        return Source([totals[c] * factor / count for c, factor in zip(flat.tolist(), factors, strict=True)])

    def _forward_inner(self, values: Values, call: Call, path: str, flat: np.ndarray) -> Source:
        x1 = call.operands[0]
        if path == "x2":
            given = (values.beside(v, flat) for v in (x1, call.inside("mu"), call.inside("sigma")))
            return Source(list(map(integer_norm.x2_at, *given)))
        statistics = (self._float_statistics if is_float(x1) else self._statistics)(values, call)
        found = statistics[path != "mu"]
        return Source([found[c] for c in flat.tolist()], root=path == "sigma")

    # -- integers -------------------------------------------------------------------------------

    @staticmethod
    def _statistics(values: Values, call: Call) -> Sums:
        """(mean, variance) of every channel, in full."""

        def make() -> Sums:
            codes, exponent = values.whole(call.operands[0])
            return _turned(
                integer_norm.statistics_of(column.tolist(), exponent) for column in _columns(codes)
            )

        return values.once(("statistics", id(call.operands[0])), make)

    @staticmethod
    def _error_sums(values: Values, back: Back) -> Sums:
        """(sum of e1, sum of e1 * x2) of every channel, in full."""

        def make() -> Sums:
            (e, up), (x, more) = values.whole(back.gradient), values.whole(back.call.inside("x2"))
            pairs = zip(_columns(e).tolist(), _columns(x).tolist(), strict=True)
            moments = (integer_norm.moments_of(*pair) for pair in pairs)
            return _turned((total * power(up), dot * power(up + more)) for total, dot in moments)

        return values.once(("errors", id(back)), make)

    @staticmethod
    def _scaled_error(values: Values, back: Back, flat: np.ndarray) -> list[Fraction]:
        given = (values.beside(v, flat) for v in (back.gradient, back.call.operands[1]))
        return list(map(integer_norm.e2_at, *given))

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x3 = gamma * x2 + beta."""
        x, gamma, beta = call.operands[:3]
        x2 = self._float_x2(values, call, x, flat) if is_float(x) else values.at(call.inside("x2"), flat)
        by = float_norm.x3_at if is_float(x) else integer_norm.x3_at
        return list(map(by, x2, values.beside(gamma, flat), values.beside(beta, flat)))

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        x2, gamma, beta = map(values.near, (call.inside("x2"), *call.operands[1:3]))
        return x2 * gamma + beta

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """dL/dx1, dL/dgamma, dL/dbeta."""
        floats, call = is_float(back.call.operands[0]), back.call
        if k:
            sums = (self._float_sums if floats else self._error_sums)(values, back)
            return [sums[k == 1][c] for c in flat.tolist()]
        if floats:
            return self._float_back(values, back, flat)
        kept = (call.inside("x2"), back.inside("m1"), back.inside("m2"), call.inside("sigma"))
        given = (values.beside(v, flat) for v in kept)
        return list(map(integer_norm.dx1_at, self._scaled_error(values, back, flat), *given))

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64, of dL/dx1."""
        call = back.call
        e, gamma, x2, s = map(
            values.near, (back.gradient, call.operands[1], call.inside("x2"), call.inside("sigma"))
        )
        m1, m2 = values.near(back.inside("m1")), values.near(back.inside("m2"))
        return (e * gamma - m1 - x2 * m2) / (s + integer_norm.EPS)

    # -- float32 --------------------------------------------------------------------------------

    @staticmethod
    def _float_statistics(values: Values, call: Call) -> Sums:
        """(mean, variance) of every channel, in full."""

        def make() -> Sums:
            x = call.operands[0]
            rows, images, count = _columns(x), per_image(x), _count(x)
            mean = divided(chains.batch_sums(rows, images), count)
            centred = rows - np.array(mean, np.float32)[:, None]
            return mean, divided(chains.batch_dots(centred, centred, images), count)

        return values.once(("statistics", id(call)), make)

    @staticmethod
    def _roots(call: Call) -> list[Fraction]:
        """r = 1/sqrt(variance + 1e-5) of the stored variance."""
        return list(map(float_norm.reciprocal_root, fractions(call.inside("var"))))

    def _float_x2(self, values: Values, call: Call, x: Any, flat: np.ndarray) -> list[Fraction]:
        """x2 = (x - mean) * r."""
        roots, at = self._roots(call), flat % shape_of(x)[-1]
        mean = values.at(call.inside("mu"), at)
        return list(map(float_norm.x2_at, values.at(x, flat), mean, [roots[c] for c in at.tolist()]))

    def _float_columns(self, back: Back) -> tuple[np.ndarray, np.ndarray]:
        """float32 rows, a channel each, of e and of x2."""
        call, e = back.call, back.gradient
        x = floats_of(Conv.kept(back, call.operands[0]))
        roots = np.array(self._roots(call), np.float32)
        return _columns(e), (_columns(x) - call.inside("mu")[:, None]) * roots[:, None]

    def _float_sums(self, values: Values, back: Back) -> Sums:
        """(sum of e, sum of e * x2) of every channel, in full."""

        def make() -> Sums:
            (e, x2), images = self._float_columns(back), per_image(back.gradient)
            return fractions(chains.batch_sums(e, images)), fractions(chains.batch_dots(e, x2, images))

        return values.once(("errors", id(back)), make)

    def _float_back(self, values: Values, back: Back, flat: np.ndarray) -> list[Fraction]:
        call, e = back.call, back.gradient
        count, roots, at = f32.to_float32(_count(e)), self._roots(call), (flat % e.shape[-1]).tolist()
        m1, m2 = ([f32.div32(part[c], count) for c in at] for part in self._float_sums(values, back))
        pairs = zip(values.beside(call.operands[1], flat), at, strict=True)
        slopes = [f32.mul32(gamma, roots[c]) for gamma, c in pairs]
        x2 = self._float_x2(values, call, Conv.kept(back, call.operands[0]), flat)
        return list(map(float_norm.dx_at, values.at(e, flat), x2, m1, m2, slopes))

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """What stands in the equation of x3, or of dL/dx1."""
        if isinstance(what, Back) and k:
            return []  # a sum over the batch
        paths = {event.path: event.result for event in (*what.call.events, *what.events)}
        x, gamma, beta = what.call.operands[:3]
        given = [("x1", x)] if is_float(x) else [("x2", paths["x2"])]
        given += [(path, paths[path]) for path in ("mu", "sigma", "var") if path in paths]
        if isinstance(what, Call):
            return shown(values, [*given, ("gamma", gamma), ("beta", beta)], what.result, at)
        given += [(path, paths[path]) for path in ("m1", "m2") if path in paths]
        return shown(values, [("e1", what.gradient), *given, ("gamma", gamma)], what.results[0], at)

    def by_definition(self, values: Values, back: Back, k: int, flat: int) -> Fraction | None:
        """dL/dgamma or dL/dbeta of one channel of float32 by the definition's own integers."""
        if not is_float(back.call.operands[0]) or not k:
            return None
        e, x2 = (fractions(columns[flat]) for columns in self._float_columns(back))
        return float_norm.error_sums_of(e, x2, per_image(back.gradient))[k == 1]


class RangeNorm(BatchNorm):
    """range_norm: float32 batch norm by the batch's range, whose statistic is stored as var."""

    floats = ("range_norm.statistics", "range_norm.backward")

    def inner_specs(self, what: What, path: str) -> tuple[str, ...]:
        """Of mu and var."""
        return ("range_norm.statistics_of",)

    @staticmethod
    def _float_statistics(values: Values, call: Call) -> Sums:
        """(mean, v) of every channel, in full."""

        def make() -> Sums:
            x = call.operands[0]
            mean = divided(chains.batch_sums(_columns(x), per_image(x)), _count(x))
            return mean, [f32.mul32(w, w) for w in _widths(x)]

        return values.once(("statistics", id(call)), make)

    def _float_back(self, values: Values, back: Back, flat: np.ndarray) -> list[Fraction]:
        call, e, x = back.call, back.gradient, back.call.operands[0]
        n, roots, widths = _count(e), self._roots(call), _widths(x)
        gbeta, ggamma = self._float_sums(values, back)
        gammas = values.at(call.operands[1], np.arange(e.shape[-1]))
        x2 = self._float_x2(values, call, x, flat)
        rows = _columns(x)
        ends = rows.argmax(axis=1), rows.argmin(axis=1)
        out = []
        for i, error, normal in zip(flat.tolist(), values.at(e, flat), x2, strict=True):
            place, c = divmod(i, e.shape[-1])
            slope = f32.mul32(gammas[c], roots[c])
            m1 = f32.div32(gbeta[c], f32.to_float32(n))
            dx = float_norm.dx_at(error, normal, m1, Fraction(0), slope)
            k = range_norm.moved_by_range(n, widths[c], roots[c], slope, ggamma[c])
            dx = f32.sub32(dx, k) if place == ends[0][c] else dx
            out.append(f32.add32(dx, k) if place == ends[1][c] else dx)
        return out


class Normalize(BatchNorm):
    """normalize: x3 by running statistics; the paths inside are mu, sigma and x2, of float32 x2 alone."""

    exact, floats = ("batch_norm.x3_at",), ("float_batch_norm.x3_at",)

    def inner_specs(self, what: What, path: str) -> tuple[str, ...]:
        """Of a path inside."""
        if path != "x2":
            return ("inference.Inference",)
        return ("float_batch_norm.x2_at",) if is_float(what.call.operands[0]) else ("batch_norm.x2_at",)

    def _forward_inner(self, values: Values, call: Call, path: str, flat: np.ndarray) -> Source:
        x, _, _, mean, variance = call.operands
        if path != "x2":
            return Source(values.at(mean if path == "mu" else variance, flat), root=path == "sigma")
        if not is_float(x):
            return super()._forward_inner(values, call, path, flat)
        roots = map(float_norm.reciprocal_root, values.beside(variance, flat))
        return Source(list(map(float_norm.x2_at, values.at(x, flat), values.beside(mean, flat), roots)))

    def _float_x2(self, values: Values, call: Call, x: Any, flat: np.ndarray) -> list[Fraction]:
        """As it is stored."""
        return values.at(call.inside("x2"), flat)

    def operands(self, values: Values, what: What, k: int, at: int) -> list[str]:
        """x2, gamma and beta."""
        gamma, beta = what.call.operands[1:3]
        named = [("x2", what.inside("x2")), ("gamma", gamma), ("beta", beta)]
        return shown(values, named, what.results[0], at)


class ScaleShift(Elementwise):
    """scale_shift: x3 = scale * x1 + offset."""

    exact = ("batch_norm.folded_at",)
    equation = staticmethod(integer_norm.folded_at)


def _widths(x: np.ndarray) -> list[Fraction]:
    """w of every channel."""
    rows = _columns(x)
    ends = (fractions(rows.max(axis=1)), fractions(rows.min(axis=1)))
    c = range_norm.constant(rows.shape[1])
    return [f32.mul32(c, f32.sub32(top, least)) for top, least in zip(*ends, strict=True)]


def _columns(values: np.ndarray) -> np.ndarray:
    """A row a channel, of all positions."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T)


def _count(values: Any) -> int:
    """Positions of a channel."""
    return int(np.prod(shape_of(values)[:-1]))


def _turned(pairs: Any) -> Sums:
    first, second = zip(*pairs, strict=True)
    return list(first), list(second)


def divided(sums: np.ndarray, n: int) -> list[Fraction]:
    """float32 of sums / n, rounded once."""
    return [f32.div32(total, f32.to_float32(n)) for total in fractions(sums)]
