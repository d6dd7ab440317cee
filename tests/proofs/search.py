"""The search of all paths of a run on terms, and the claims that hold on each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import z3

ATTEMPTS = 20  # of a query, each from another seed
TIMEOUT = 2_000  # milliseconds of the first attempt; each has twice the time of the one before it
LONGEST = 20_000  # of an attempt, on a machine with other work: hardly one needs 5 s of its own


class Type(NamedTuple):
    """Of an integer."""

    bits: int
    signed: bool


I8, I16, I32, I64 = (Type(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Type(bits, False) for bits in (8, 16, 32, 64))
NUMPY: dict[Type, Any] = {
    I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64,
    U8: np.uint8, U16: np.uint16, U32: np.uint32, U64: np.uint64,
}  # fmt: skip


class Undecided(AssertionError):
    """The solver gave up, or ran out of time."""


# --- one run, and all of them -----------------------------------------------------------------------


@dataclass
class Run:
    """A run of a claim along one path."""

    choices: list[bool]
    at: int = 0
    path: list[Any] = field(default_factory=list)
    required: list[Any] = field(default_factory=list)
    variables: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # terms, and NumPy's types
    quotients: dict[Any, Any] = field(default_factory=dict)  # floors of divisions
    products: dict[Any, Any] = field(default_factory=dict)  # of those, and what they were divided by
    others: list[list[bool]] = field(default_factory=list)
    fresh: int = 0


_runs: list[Run] = []


def current() -> Run:
    """The run that is on."""
    return _runs[-1]


def ask(terms: list[Any]) -> Any:
    """(z3's answer to all these terms together, the solver).

    What takes long begins again in a context of its own, from another seed: how the solver searches depends
    on all terms that were ever made in one, and so on which tests ran before. A query that one start answers
    within a second may take another minutes.
    """
    answer, solver = _attempt(terms, 0)
    for seed in range(1, ATTEMPTS):
        if answer != z3.unknown:
            break
        alone = z3.Context()
        answer, solver = _attempt([term.translate(alone) for term in terms], seed, alone)
    return answer, solver


def _attempt(terms: list[Any], seed: int, context: Any = None) -> tuple[Any, Any]:
    solver = z3.Solver(ctx=context)
    solver.set("timeout", min(TIMEOUT << seed, LONGEST))
    solver.set("random_seed", seed)
    solver.add(*terms)
    return solver.check(), solver


def possible(*terms: Any) -> bool:
    """Whether there are values for which all terms hold, as far as the solver knows."""
    return bool(ask([*_runs[-1].path, *terms])[0] != z3.unsat)


def decide(term: Any) -> bool:
    """What a condition is on this path; the other way is taken by another run."""
    term, run = z3.simplify(term), _runs[-1]
    if z3.is_true(term) or z3.is_false(term):
        return bool(z3.is_true(term))
    if run.at == len(run.choices):
        yes, no = possible(term), possible(z3.Not(term))
        if yes and no:
            run.others.append([*run.choices, False])
        run.choices.append(yes)
    choice = run.choices[run.at]
    run.at += 1
    run.path.append(term if choice else z3.Not(term))
    return choice


def assume(condition: Any) -> None:
    """Look only at values for which this holds."""
    _runs[-1].path.append(formula(condition))


def require(condition: Any) -> None:
    """The claim is wrong where this is."""
    term = z3.simplify(formula(condition))
    if not z3.is_true(term):
        _runs[-1].required.append(term)


def formula(condition: Any) -> Any:
    """A `machine.Bit`, bool or term as a term."""
    if isinstance(condition, bool):
        return z3.BoolVal(condition)
    return getattr(condition, "term", condition)


def fresh(sort: Any) -> Any:
    """A term of which nothing is known."""
    run = _runs[-1]
    run.fresh += 1
    return z3.Const(f"!{run.fresh}", sort)


def counterexample(claim: Callable[[], Any]) -> dict[str, Any] | None:
    """Values of the variables for which a claim is wrong, or None where the solver proves it.

    claim: makes its variables, assumes, runs functions on them, and returns what must hold
    """
    waiting: list[list[bool]] = [[]]
    seen = False  # values that fulfil all that was assumed, on one path at least
    while waiting:
        run = Run(waiting.pop())
        _runs.append(run)
        try:
            goal = formula(claim())
        finally:
            _runs.pop()
        waiting += run.others
        seen = seen or ask(run.path)[0] == z3.sat
        wrong = z3.Not(z3.And(goal, *run.required))
        if z3.is_false(z3.simplify(wrong)):
            continue
        answer, solver = ask([*run.path, wrong])
        if answer == z3.unknown:
            raise Undecided(f"{solver.reason_unknown()} on a path of {len(run.path)} conditions")
        if answer == z3.sat:
            model = solver.model()
            if model.ctx != z3.main_ctx():
                model = model.translate(z3.main_ctx())
            return {
                name: _number(model.eval(term, model_completion=True), kind)
                for name, (term, kind) in run.variables.items()
            }
    assert seen, "no value fulfils what is assumed: nothing is proven"
    return None


def prove(claim: Callable[[], Any]) -> None:
    """AssertionError with the values for which a claim is wrong; Undecided where the solver gives up."""
    found = counterexample(claim)
    assert found is None, found


def _number(value: Any, kind: Any) -> Any:
    """A value of a model as a number of NumPy's, or of Python's where there is no type."""
    if isinstance(value, z3.RatNumRef):
        return value.as_fraction()
    number = int(value.as_long())
    return number if kind is None else np.array(number, np.uint64).astype(kind)[()]
