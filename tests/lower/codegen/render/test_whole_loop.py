"""Loops of one thread as one function: scalars in registers, arrays in place, no call in a step."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.hw.compile import llvm
from tfn.hw.cpu.target import host
from tfn.lower.codegen.render.whole_loop import Memory, memories, parted, plan
from tfn.lower.pipeline import lower
from tfn.lower.program import Kernel, Launch, Loop, Program, Slot, Space, all_launches


def insertion_sort(x: Any) -> Any:
    """A while loop in a loop with a counter."""

    def insert(i: Any, x: Any) -> Any:
        v = x[i]

        def shift(s: Any) -> Any:
            j, x = s
            return j - 1, x.at[j + 1].set(x[j])

        j, x = lax.while_loop(lambda s: (s[0] >= 0) & (s[1][s[0]] > v), shift, (i - 1, x))
        return x.at[j + 1].set(v)

    return lax.fori_loop(1, x.shape[0], insert, x)


def brackets(x: Any) -> Any:
    """Branches in a branch, which update arrays and a scalar."""

    def step(i: Any, s: Any) -> Any:
        def close(partner: Any, stack: Any, size: Any) -> Any:
            def match(partner: Any, stack: Any, size: Any) -> Any:
                j = stack[size - 1]
                return partner.at[i].set(j).at[j].set(i), stack, size - 1

            return lax.cond(size > 0, match, lambda *s: s, partner, stack, size)

        def begin(partner: Any, stack: Any, size: Any) -> Any:
            return partner, stack.at[size].set(i), size + 1

        return lax.cond(x[i] > 0, begin, close, *s)

    none, stack = tnp.full(x.shape, -1, tnp.int32), tnp.zeros(x.shape, tnp.int32)
    return lax.fori_loop(0, x.shape[0], step, (none, stack, tnp.int32(0)))[0]


def sieve(x: Any) -> Any:
    """A while loop in a branch in a loop."""

    def cross(i: Any, x: Any) -> Any:
        def multiples(x: Any) -> Any:
            def body(s: Any) -> Any:
                return s[0] + i, s[1].at[s[0]].set(0)

            return lax.while_loop(lambda s: s[0] < x.shape[0], body, (i * i, x))[1]

        return lax.cond(x[i] > 0, multiples, lambda x: x, x)

    return lax.fori_loop(2, 15, cross, x)


def collatz(x: Any) -> Any:
    """A while loop of scalars, whose kernel is a loop by itself."""

    def step(s: Any) -> Any:
        a, n = s
        return tnp.where(a % 2 == 0, a // 2, 3 * a + 1), n + 1

    return lax.while_loop(lambda s: s[0] > 1, step, (x, tnp.int32(0)))[1]


def sorted_by_python(x: Any) -> Any:
    """The same by the standard library."""
    return np.array(sorted(x.tolist()), np.float32)


def brackets_by_python(x: Any) -> Any:
    """The same with a list."""
    partner, stack = np.full(len(x), -1, np.int32), list[int]()
    for i, opens in enumerate(x > 0):
        if opens:
            stack.append(i)
        elif stack:
            j = stack.pop()
            partner[i], partner[j] = j, i
    return partner


def sieve_by_python(x: Any) -> Any:
    """The same by slices."""
    x = x.copy()
    for i in range(2, 15):
        if x[i]:
            x[i * i :: i] = 0
    return x


def collatz_by_python(x: Any) -> Any:
    """The same in Python."""
    a, n = int(x), 0
    while a > 1:
        a, n = a // 2 if a % 2 == 0 else 3 * a + 1, n + 1
    return np.int32(n)


SAMPLE = np.random.default_rng(0).standard_normal(200).astype(np.float32)
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "insertion sort": (insertion_sort, sorted_by_python, SAMPLE),
    "brackets": (brackets, brackets_by_python, SAMPLE),
    "sieve": (sieve, sieve_by_python, np.ones(200, np.int32)),
    "collatz": (collatz, collatz_by_python, np.int32(27)),
}
programs = pytest.mark.parametrize("name", PROGRAMS)


def lowered(f: Callable[[Any], Any], x: Any) -> Program:
    """The program of a function, for this machine."""
    return lower(tfn.make_jaxpr(f)(tnp.asarray(x)), host())


def optimised(program: Program) -> str:
    """The functions of whole loops after LLVM's passes."""
    binding = llvm.binding()
    with llvm.LOCK:
        module = binding.parse_assembly(program.text, binding.create_context())
        module.triple = host().triple
        llvm._optimise(module, llvm.machine(host()))
        functions = str(module).split("\n}\n")
    return "\n".join(f for f in functions if re.search(r"^define .*@whole\d", f, re.M))


@programs
def test_loops_compute_what_python_does(name: str) -> None:
    f, by_python, x = PROGRAMS[name]
    assert np.array_equal(tfn.jit(f)(tnp.asarray(x)), by_python(x))


@programs
def test_a_loop_is_one_function_without_calls_and_scalars_in_memory(name: str) -> None:
    f, _, x = PROGRAMS[name]
    text = optimised(lowered(f, x))
    calls = re.findall(r"call [^@]*@([\w.]+)", text)
    assert text and all(callee.startswith("llvm.") for callee in calls), calls
    assert "alloca" not in text


@programs
def test_no_step_of_a_loop_copies_an_array(name: str) -> None:
    f, _, x = PROGRAMS[name]
    program = lowered(f, x)
    loops = [step for step in program.steps if isinstance(step, Loop)]
    launches = list(all_launches(loops))
    copies = [step for step in launches if step.kernel.is_copy]
    assert bool(loops) != (name == "collatz")
    assert all(step.operands[0].size_bytes <= 4 for step in copies)


def test_arrays_of_the_arena_that_share_memory_are_one() -> None:
    a, b = Slot(Space.ARENA, 0, 0, (), 128), Slot(Space.ARENA, 64, 0, (), 128)
    c, out = Slot(Space.ARENA, 256, 0, (), 4), Slot(Space.OUTPUT, 0, 0, (), 4)
    kernel = Kernel("k", None, (), 1, "", 1)
    parts = memories([Launch(kernel, (a, b, c, out), False)])
    assert parts == [
        Memory(Space.ARENA, 0, 192, is_shared=True),
        Memory(Space.ARENA, 256, 4),
        Memory(Space.OUTPUT, 0, 4),
    ]
    assert [part.is_small for part in parts] == [False, True, True]


def test_launches_before_a_loop_join_it_where_none_between_needs_them() -> None:
    text = "define void @k(i64 %begin, i64 %end, ptr %operands) {\nentry:\n  ret void\n}\n"
    kernel = Kernel("k", None, (), 1, text, 1)
    first, second = (Slot(Space.ARENA, 64 * i, 0, (), 4) for i in range(2))
    fill = Launch(kernel, (first,), False, serial=True)
    other = Launch(kernel, (second, Slot(Space.INPUT, 0)), False, serial=True)
    reader = Launch(kernel, (second, first), False, serial=True)
    inside = Launch(kernel, (first,), False, serial=True)
    loop = Loop(0, 1000, (), None, (inside,), False)
    short = Loop(0, 3, (), None, (inside,), False)
    assert [*parted([fill, other, loop], False)] == [([other], False), ([fill, loop], True)]
    runs = [*parted([fill, other, reader, loop], False)]
    assert runs == [([fill], False), ([other], False), ([reader, loop], True)] or runs == [
        ([other], False),
        ([fill, reader, loop], True),
    ]
    assert [*parted([fill, short], False)] == [([fill], False), ([short], False)]


@pytest.mark.parametrize("steps", [3, 300])
def test_one_constant_may_be_a_first_carry_and_be_read_in_each_step(steps: int) -> None:
    def f(x: Any) -> Any:
        zero = tnp.zeros(3)

        def body(_: Any, c: Any) -> Any:
            return lax.cond(x > c[0] - 9, lambda z: z + 1, lambda z: z - 1, zero) + c

        return lax.fori_loop(0, steps, body, zero)

    expected = 0.0
    for _ in range(steps):
        expected += 1 if expected < 14 else -1
    assert tfn.jit(f)(5.0).tolist() == [expected] * 3


@pytest.mark.parametrize("outer", [(), (7,)])
def test_small_values_stay_within_a_loop_that_no_other_is_around(outer: tuple[int, ...]) -> None:
    inner = Slot(Space.ARENA, 0, 0, (), 4, is_inner=True)
    launch = Launch(Kernel("k", None, (), 1, "", 1), (inner,), False, serial=True)
    made = plan("@f", [Loop(8, 1000, (), None, (launch,), False)], outer)
    assert bool(made.end) == bool(made.pointers) == bool(outer)
