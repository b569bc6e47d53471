"""The compiler in one page: trace a function, transpose it, simplify it, lower it to loops.

    python examples/micro.py

All of it is about one immutable graph, a table has a row per operation, `grad` is transpose of jvp,
laws are data, movement of arrays becomes arithmetic of indices, and NumPy says what is right.
That takes less than a hundred lines of code.  tfn has the same parts, in full.
"""

# ruff: noqa: E701  (a page)
# fmt: off

from argparse import ArgumentParser
from functools import cache

import numpy as np


class UOp:
    """An operation on nodes.  `uop` makes them, and equal ones are one object."""

    def __init__(self, op, *src, arg=()):
        self.op, self.src, self.arg = op, src, arg
        self.shape = SHAPE.get(op, same)(*(x.shape for x in src), *arg)

    def __add__(self, y): return uop("add", self, node(y))
    def __mul__(self, y): return uop("mul", self, node(y))
    def __matmul__(self, y): return uop("dot", self, y)
    T = property(lambda self: uop("turn", self))

uop = cache(UOp)
node = lambda x: x if isinstance(x, UOp) else uop("number", arg=(float(x),))
param = lambda shape, name=None: uop("param", arg=(shape, name or object()))
tanh = lambda x: uop("tanh", x)
total = lambda x: uop("sum", x)
spread = lambda x, shape: uop("spread", node(x), arg=(shape,))

def same(*shapes):
    """The shape that all operands have; a number has none, and fits everywhere."""
    shape, = {*shapes} - {None} or {None}
    return shape


SHAPE = {"param": lambda shape, name: shape, "number": lambda n: None, "sum": lambda x: (),
         "spread": lambda x, shape: shape, "turn": lambda x: x[::-1],
         "dot": lambda x, y: same(x[1:], y[:1]) and x[:1] + y[1:]}
MEANING = {"number": float, "add": np.add, "mul": np.multiply, "tanh": np.tanh, "dot": np.matmul,
           "turn": np.transpose, "spread": np.broadcast_to, "sum": np.sum}
JVP = {  # for each operand: what its tangent adds to the tangent of u
    "add": (lambda u, dx: dx, lambda u, dy: dy),
    "mul": (lambda u, dx: dx * u.src[1], lambda u, dy: u.src[0] * dy),
    "dot": (lambda u, dx: dx @ u.src[1], lambda u, dy: u.src[0] @ dy),
    "tanh": (lambda u, dx: (u * u * -1 + 1) * dx,), "turn": (lambda u, dx: dx.T,),
    "sum": (lambda u, dx: total(dx),), "spread": (lambda u, dx: spread(dx, u.shape),)}
TRANSPOSE = {  # for each operand that u is linear in: what the cotangent of u adds to its own
    "add": (lambda u, ct: ct, lambda u, ct: ct),
    "mul": (lambda u, ct: u.src[1] * ct, lambda u, ct: u.src[0] * ct),
    "dot": (lambda u, ct: ct @ u.src[1].T, lambda u, ct: u.src[0].T @ ct),
    "turn": (lambda u, ct: ct.T,), "spread": (lambda u, ct: total(ct),),
    "sum": (lambda u, ct: spread(ct, u.src[0].shape),)}
LAWS = ((X := param(())) * 1, X + 0, X.T.T, X * -1 * -1)  # all of them are X
TEXT = {"add": "({} + {})", "mul": "{} * {}", "tanh": "tanh({})"}
LOOPS = {"dot": ("ik", "ij", "jk"), "sum": ("", "ij"), "copy": ("ij", "ij")}  # out, and operands


@cache
def walk(y):
    """All that y is made of, operands first."""
    return [*dict.fromkeys(u for x in y.src for u in walk(x)), y]

def evaluate(u, known):
    """The oracle: what a node is by definition."""
    if u not in known: known[u] = MEANING[u.op](*(evaluate(x, known) for x in u.src), *u.arg)
    return known[u]

def jvp(u, known):
    """The tangent of a node from those that are known; None if it does not depend on them."""
    if u not in known:
        parts = [rule(u, dx) for x, rule in zip(u.src, JVP.get(u.op, ())) if (dx := jvp(x, known))]
        known[u] = sum(parts[1:], parts[0]) if parts else None
    return known[u]

def transpose(dy, dx, ct):
    """The cotangent of dx, if ct is that of dy, which is linear in dx."""
    cts = {dy: ct}
    for u in reversed(walk(dy)):
        for x, rule in zip(u.src, TRANSPOSE.get(u.op, ())):
            if dx in walk(x): cts[x] = cts[x] + rule(u, cts[u]) if x in cts else rule(u, cts[u])
    return cts[dx]

def grad(f):
    """The gradient of f by its first argument.  It has no rules: the two tables have them."""
    def gradient(x, *rest):
        dx = param(x.shape)
        return transpose(jvp(f(x, *rest), {x: dx}) or total(dx * 0), dx, node(1))
    return gradient

def match(law, u, found):
    """Whether u has the form of a law; found gets the value of X."""
    if law is X: return found.setdefault(X, u) is u
    if (law.op, u.op) == ("number", "spread"): return law is u.src[0]
    return (law.op, law.arg) == (u.op, u.arg) and all(match(*p, found) for p in zip(law.src, u.src))

@cache
def simplify(u):
    """The same graph by laws, operands first."""
    u = uop(u.op, *map(simplify, u.src), arg=u.arg)
    for law in LAWS:
        if match(law, u, found := {}) and found[X].shape == u.shape: return found[X]
    return u

def lower(y):
    """Python text: a loop for each value that has to be in memory, all others fused into them."""
    y = y if y.op in LOOPS else uop("copy", y)
    names, text = {u: u.arg[1] for u in walk(y) if u.op == "param"}, ""
    def at(u, index):
        if u in names: return f"{names[u]}[{', '.join(index) or ()}]"
        if u.op in ("turn", "spread"): return at(u.src[0], index[::-1] if u.op == "turn" else "")
        return TEXT[u.op].format(*(at(x, index) for x in u.src)) if u.src else f"{u.arg[0]:g}"
    for u in walk(y):
        if u.op in LOOPS:
            out, *indices = (i[:len(x.shape)] for x, i in zip((u, *u.src), LOOPS[u.op]))
            sizes = {i: n for x, index in zip(u.src, indices) for i, n in zip(index, x.shape)}
            names[u] = "out" if u is y else f"v{len(names)}"
            text += f"{names[u]} = zeros({u.shape})\nfor {', '.join(sizes) or '()'} in ndindex"
            text += f"{(*sizes.values(),)}: {at(u, out)} += {' * '.join(map(at, u.src, indices))}\n"
    return text

def run(text, arrays):
    """The result of the text, for arrays by name."""
    return exec(text, scope := {**vars(np), **arrays}) or scope["out"]


def loss(w, x, y):
    """The squared error of a layer: the program that is compiled."""
    miss = tanh(x @ w) + y * -1
    return total(miss * miss)

if __name__ == "__main__":
    ArgumentParser(description=__doc__.partition("\n")[0]).parse_known_args()
    random, shapes = np.random.default_rng(0), {"w": (3, 2), "x": (5, 3), "y": (5, 2)}
    arrays = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    params = {param(array.shape, name): array for name, array in arrays.items()}
    print(text := lower(simplify(slopes := grad(loss)(*params))))
    print("beside the oracle:", abs(run(text, arrays) - evaluate(slopes, params)).max())
