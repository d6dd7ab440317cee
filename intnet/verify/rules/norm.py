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
from intnet.spec.tensor import power
from intnet.verify import chains
from intnet.verify.record import Back, Call
from intnet.verify.rules.products import Conv
from intnet.verify.rules.rule import Elementwise, Rule, Source, shown
from intnet.verify.values import Near, Values, floats_of, fractions, is_float, units

EPS = float(integer_norm.EPS)


class BatchNorm(Rule):
    """batch_norm; the paths inside are mu, sigma, x2 on the way forward, e2, m1, m2 on the way back."""

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By the kind of the input."""
        call = what if isinstance(what, Call) else what.call
        if is_float(call.operands[0]):
            return ("float_batch_norm.forward" if isinstance(what, Call) else "float_batch_norm.backward",)
        if isinstance(what, Call):
            return ("batch_norm.x3_at",)
        return (("batch_norm.dx1_at", "batch_norm.moments_of", "batch_norm.moments_of")[k],)

    # -- what is inside -------------------------------------------------------------------------

    def inner_specs(self, what: Call | Back, path: str) -> tuple[str, ...]:
        """Of a path inside."""
        call = what if isinstance(what, Call) else what.call
        if is_float(call.operands[0]):
            return ("float_batch_norm.forward",)
        named = {"mu": "statistics_of", "sigma": "statistics_of", "x2": "x2_at"}
        named |= {"e2": "e2_at", "m1": "moments_of", "m2": "moments_of"}
        return (f"batch_norm.{named[path]}",)

    def inner(self, values: Values, what: Call | Back, path: str, flat: np.ndarray) -> Source:
        """The exact value of a path inside, before it is rounded."""
        if isinstance(what, Call):
            return self._forward_inner(values, what, path, flat)
        e, gamma = what.gradient, what.call.operands[1]
        if path == "e2":
            return Source(self._scaled_error(values, e, gamma, flat))
        x2, (sums, dots) = self._stored(what.call, "x2"), self._error_sums(values, what)
        n = x2.size // x2.shape[-1]
        factors = values.at(gamma, flat)
        totals = sums if path == "m1" else dots
        return Source([totals[c] * factor / n for c, factor in zip(flat.tolist(), factors, strict=True)])

    def _forward_inner(self, values: Values, call: Call, path: str, flat: np.ndarray) -> Source:
        x1 = call.operands[0]
        if is_float(x1):
            mean, variance = self._float_statistics(values, call)
            return Source(fractions((mean if path == "mu" else variance)[flat]))
        if path == "x2":
            mu, sigma = self._stored(call, "mu"), self._stored(call, "sigma")
            at = flat % mu.shape[0]
            parts = zip(values.at(x1, flat), values.at(mu, at), values.at(sigma, at), strict=True)
            return Source([integer_norm.x2_at(x, m, s) for x, m, s in parts])
        statistics = self._integer_statistics(values, x1)
        if path == "mu":
            return Source([statistics[c][0] for c in flat.tolist()])
        return Source([statistics[c][1] for c in flat.tolist()], root=True)

    @staticmethod
    def _stored(what: Call | Back, path: str) -> Any:
        """What a path inside holds."""
        return next(event.result for event in what.events if event.path == path)

    # -- integers -------------------------------------------------------------------------------

    @staticmethod
    def _integer_statistics(values: Values, x1: Any) -> list[tuple[Fraction, Fraction]]:
        """(mean, variance) of every channel, in full."""
        key = ("statistics", id(x1))
        if key not in values.cache:
            codes, exponent = values.whole(x1)
            columns = np.ascontiguousarray(codes.reshape(-1, codes.shape[-1]).T)
            values.cache[key] = [integer_norm.statistics_of(column.tolist(), exponent) for column in columns]
        found: list[tuple[Fraction, Fraction]] = values.cache[key]
        return found

    def _error_sums(self, values: Values, back: Back) -> tuple[list[Fraction], list[Fraction]]:
        """(sum of e1, sum of e1 * x2) of every channel, in full."""
        key = ("errors", id(back))
        if key not in values.cache:
            (e, up), (x, more) = values.whole(back.gradient), values.whole(self._stored(back.call, "x2"))
            pairs = zip(*(np.ascontiguousarray(v.reshape(-1, v.shape[-1]).T) for v in (e, x)), strict=True)
            moments = [integer_norm.moments_of(errors.tolist(), normed.tolist()) for errors, normed in pairs]
            values.cache[key] = (
                [total * power(up) for total, _ in moments],
                [dot * power(up + more) for _, dot in moments],
            )
        found: tuple[list[Fraction], list[Fraction]] = values.cache[key]
        return found

    @staticmethod
    def _scaled_error(values: Values, e: Any, gamma: Any, flat: np.ndarray) -> list[Fraction]:
        pairs = zip(values.at(e, flat), values.at(gamma, flat % gamma.shape[0]), strict=True)
        return [integer_norm.e2_at(v, factor) for v, factor in pairs]

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x3 = gamma * x2 + beta."""
        x, gamma, beta = call.operands
        at = flat % gamma.shape[0]
        gammas, betas = values.at(gamma, at), values.at(beta, at)
        if not is_float(x):
            x2 = values.at(self._stored(call, "x2"), flat)
            return [integer_norm.x3_at(v, g, b) for v, g, b in zip(x2, gammas, betas, strict=True)]
        x2 = self._float_x2(values, call, x, flat)
        return [f32.add32(f32.mul32(v, g), b) for v, g, b in zip(x2, gammas, betas, strict=True)]

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        (x2, size), (g, _), (b, _) = map(values.near, (self._stored(call, "x2"), *call.operands[1:]))
        return x2 * g + b, size * np.abs(g) + np.abs(b)

    def back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        """dL/dx1, dL/dgamma, dL/dbeta."""
        if is_float(back.call.operands[0]):
            return self._float_back(values, back, k, flat)
        if k:
            sums, dots = self._error_sums(values, back)
            return [(dots if k == 1 else sums)[c] for c in flat.tolist()]
        call = back.call
        at = flat % call.operands[1].shape[0]
        e2 = self._scaled_error(values, back.gradient, call.operands[1], flat)
        x2 = values.at(self._stored(call, "x2"), flat)
        m1, m2 = (values.at(self._stored(back, path), at) for path in ("m1", "m2"))
        sigma = values.at(self._stored(call, "sigma"), at)
        parts = zip(e2, x2, m1, m2, sigma, strict=True)
        return [integer_norm.dx1_at(*part) for part in parts]

    def near_back(self, values: Values, back: Back, k: int) -> Near:
        """In float64, of dL/dx1."""
        call = back.call
        (e, size), (g, _) = values.near(back.gradient), values.near(call.operands[1])
        (x2, _), (s, _) = values.near(self._stored(call, "x2")), values.near(self._stored(call, "sigma"))
        (m1, _), (m2, _) = values.near(self._stored(back, "m1")), values.near(self._stored(back, "m2"))
        found = (e * g - m1 - x2 * m2) / (s + EPS)
        return found, (size * np.abs(g) + np.abs(m1) + np.abs(x2 * m2)) / (s + EPS)

    # -- float32 --------------------------------------------------------------------------------

    @staticmethod
    def _float_statistics(values: Values, call: Call) -> tuple[np.ndarray, np.ndarray]:
        """(mean, variance) of every channel, in full."""
        key = ("statistics", id(call))
        if key not in values.cache:
            x = call.operands[0]
            rows, per_image = np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T), int(np.prod(x.shape[1:-1]))
            n = rows.shape[1]
            mean = divided(chains.batch_sums(rows, per_image), n)
            centred = rows - mean[:, None]
            values.cache[key] = mean, divided(chains.batch_dots(centred, centred, per_image), n)
        found: tuple[np.ndarray, np.ndarray] = values.cache[key]
        return found

    def _roots(self, call: Call) -> np.ndarray:
        """r = 1/sqrt(variance + 1e-5) of the stored variance."""
        return np.array(
            [
                float(f32.to_float32(1 / f32.sqrt32(f32.add32(v, float_norm.EPS))))
                for v in fractions(self._stored(call, "var"))
            ],
            np.float32,
        )

    def _float_x2(self, values: Values, call: Call, x: Any, flat: np.ndarray) -> list[Fraction]:
        """x2 = (x - mean) * r."""
        mean, r, at = self._stored(call, "mu"), self._roots(call), flat % x.shape[-1]
        parts = zip(values.at(x, flat), fractions(mean[at]), fractions(r[at]), strict=True)
        return [f32.mul32(f32.add32(v, -m), root) for v, m, root in parts]

    def _float_sums(self, values: Values, back: Back) -> tuple[np.ndarray, np.ndarray]:
        """(sum of e, sum of e * x2) of every channel, in full."""
        key = ("errors", id(back))
        if key not in values.cache:
            call, e = back.call, back.gradient
            x = floats_of(Conv.kept(back, call.operands[0]))
            per_image = int(np.prod(e.shape[1:-1]))
            e, x = (np.ascontiguousarray(v.reshape(-1, v.shape[-1]).T) for v in (e, x))
            x2 = (x - self._stored(call, "mu")[:, None]) * self._roots(call)[:, None]
            values.cache[key] = chains.batch_sums(e, per_image), chains.batch_dots(e, x2, per_image)
        found: tuple[np.ndarray, np.ndarray] = values.cache[key]
        return found

    def _float_back(self, values: Values, back: Back, k: int, flat: np.ndarray) -> list[Fraction]:
        sums, dots = self._float_sums(values, back)
        if k:
            return fractions((dots if k == 1 else sums)[flat])
        call, e = back.call, back.gradient
        n, at = e.size // e.shape[-1], flat % e.shape[-1]
        x2 = self._float_x2(values, call, Conv.kept(back, call.operands[0]), flat)
        gammas, roots = values.at(call.operands[1], at), fractions(self._roots(call)[at])
        m1, m2 = fractions(divided(sums, n)[at]), fractions(divided(dots, n)[at])
        out = []
        for v, x, a, b, g, r in zip(values.at(e, flat), x2, m1, m2, gammas, roots, strict=True):
            error = f32.add32(f32.add32(v, -a), -f32.mul32(x, b))
            out.append(f32.mul32(error, f32.mul32(g, r)))
        return out

    def operands(self, values: Values, what: Call | Back, k: int, at: int) -> list[str]:
        """What stands in the equation of x3, or of dL/dx1."""
        call = what if isinstance(what, Call) else what.call
        paths = {event.path: event.result for event in call.events}
        x, gamma, beta = call.operands[:3]
        mine = [("x1", x)] if is_float(x) else [("x2", paths["x2"])]
        if isinstance(what, Call):
            return shown(
                values, [*mine, *_statistics(paths), ("gamma", gamma), ("beta", beta)], what.result, at
            )
        if k:
            return []  # a sum over the batch
        paths |= {event.path: event.result for event in what.events}
        means = [(path, paths[path]) for path in ("m1", "m2") if path in paths]
        given = [("e1", what.gradient), *mine, *_statistics(paths), *means, ("gamma", gamma)]
        return shown(values, given, what.results[0], at)

    def part(self, what: Call | Back, k: int) -> str:
        """Of the gradients."""
        return "" if isinstance(what, Call) else ("", "ggamma", "gbeta")[k]

    def by_definition(self, values: Values, what: Call | Back, path: str, c: int) -> Fraction | None:
        """One channel of a float32 statistic or gradient by the definition's own integers."""
        call = what if isinstance(what, Call) else what.call
        if not is_float(call.operands[0]) or not path:
            return None
        x = floats_of(call.operands[0] if isinstance(what, Call) else Conv.kept(what, call.operands[0]))
        per_image, column = int(np.prod(x.shape[1:-1])), x.reshape(-1, x.shape[-1])[:, c]
        if path == "mu":
            total = f32.batch_dot_units(units(column), [f32.ONE] * len(column), per_image)
            return f32.to_float32(Fraction(total, f32.ONE) / len(column))
        centred = units(column - self._stored(call, "mu")[c])
        if path == "var":
            total = f32.batch_dot_units(centred, centred, per_image)
            return f32.to_float32(Fraction(total, f32.ONE) / len(column))
        assert isinstance(what, Back)
        errors = units(what.gradient.reshape(-1, x.shape[-1])[:, c])
        if path == "gbeta":
            return Fraction(f32.batch_dot_units(errors, [f32.ONE] * len(column), per_image), f32.ONE)
        x2 = units((column - self._stored(call, "mu")[c]) * self._roots(call)[c])
        return Fraction(f32.batch_dot_units(errors, x2, per_image), f32.ONE)


class Normalize(BatchNorm):
    """normalize: x3 by running statistics; the paths inside are mu, sigma and x2, of float32 x2 alone."""

    def specs(self, what: Call | Back, k: int) -> tuple[str, ...]:
        """By the kind of the input."""
        assert isinstance(what, Call)
        return ("float_batch_norm.x3_at",) if is_float(what.operands[0]) else ("batch_norm.x3_at",)

    def inner_specs(self, what: Call | Back, path: str) -> tuple[str, ...]:
        """Of a path inside."""
        assert isinstance(what, Call)
        if path != "x2":
            return ("inference.Inference",)
        return ("float_batch_norm.x2_at",) if is_float(what.operands[0]) else ("batch_norm.x2_at",)

    def _forward_inner(self, values: Values, call: Call, path: str, flat: np.ndarray) -> Source:
        x, _, _, mean, variance = call.operands
        if path != "x2":
            return Source(values.at(mean if path == "mu" else variance, flat), root=path == "sigma")
        if not is_float(x):
            return super()._forward_inner(values, call, path, flat)
        at = flat % mean.shape[0]
        parts = zip(values.at(x, flat), values.at(mean, at), values.at(variance, at), strict=True)
        return Source([float_norm.x2_at(v, m, float_norm.reciprocal_root(s)) for v, m, s in parts])

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """x3 = gamma * x2 + beta."""
        x, gamma, beta = call.operands[:3]
        at = flat % gamma.shape[0]
        x2 = values.at(self._stored(call, "x2"), flat)
        by = float_norm.x3_at if is_float(x) else integer_norm.x3_at
        return [by(v, g, b) for v, g, b in zip(x2, values.at(gamma, at), values.at(beta, at), strict=True)]

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        (x2, size), (g, _), (b, _) = map(values.near, (self._stored(call, "x2"), *call.operands[1:3]))
        return x2 * g + b, size * np.abs(g) + np.abs(b)

    def operands(self, values: Values, what: Call | Back, k: int, at: int) -> list[str]:
        """x2, gamma and beta."""
        assert isinstance(what, Call)
        named = [("x2", self._stored(what, "x2")), ("gamma", what.operands[1]), ("beta", what.operands[2])]
        return shown(values, named, what.result, at)

    def by_definition(self, values: Values, what: Call | Back, path: str, c: int) -> Fraction | None:
        """Nothing is summed."""
        return None


class ScaleShift(Elementwise):
    """scale_shift: x3 = scale * x1 + offset."""

    forward_spec = "batch_norm.folded_at"

    def forward(self, values: Values, call: Call, flat: np.ndarray) -> list[Fraction]:
        """Exact."""
        x, scale, offset = call.operands
        at = flat % scale.shape[0]
        parts = zip(values.at(x, flat), values.at(scale, at), values.at(offset, at), strict=True)
        return [integer_norm.folded_at(*part) for part in parts]

    def near_forward(self, values: Values, call: Call) -> Near:
        """In float64."""
        (x, size), (g, _), (b, _) = map(values.near, call.operands)
        return x * g + b, size * np.abs(g) + np.abs(b)


def _statistics(paths: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(path, paths[path]) for path in ("mu", "sigma", "var") if path in paths]


def divided(sums: np.ndarray, n: int) -> np.ndarray:
    """float32 of sums / n, rounded once."""
    return np.array([float(f32.to_float32(v / n)) for v in fractions(sums)], np.float32)
