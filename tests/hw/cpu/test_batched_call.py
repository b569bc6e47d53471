"""Batched calls of C functions: strides and copies."""

from __future__ import annotations

import ctypes

import pytest

from tfn.hw.cpu.batched_call import FIRST, Calls

NUMBER = ctypes.POINTER(ctypes.c_int32)


@pytest.mark.parametrize("arguments", [1, 2, 15])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_arguments_advance_by_their_strides(arguments, count):
    seen = []
    kind = ctypes.CFUNCTYPE(None, *[NUMBER] * arguments)
    function = kind(lambda *places: seen.append([place[0] for place in places]))
    numbers = (ctypes.c_int32 * 64)(*range(64))
    begin = ctypes.addressof(numbers)
    places = [(begin + 4 * i, 4 * (i % 3)) for i in range(arguments)]
    call = Calls(ctypes.cast(function, ctypes.c_void_p).value, count, places)
    for _ in range(2):
        call()
    once = [[i + (i % 3) * step for i in range(arguments)] for step in range(count)]
    assert seen == once * 2


def test_in_place_operands_are_copied_first():
    def double(place):
        place[0] *= 2

    function = ctypes.CFUNCTYPE(None, NUMBER)(double)
    given, made = (ctypes.c_int32 * 3)(1, 2, 3), (ctypes.c_int32 * 3)()
    to, source = ctypes.addressof(made), ctypes.addressof(given)
    address = ctypes.cast(function, ctypes.c_void_p).value
    call = Calls(address, 3, [(to, 4)], (to, source, 12), (given, made))
    for _ in range(2):
        call()
        assert list(made) == [2, 4, 6] and list(given) == [1, 2, 3]


def test_calls_elsewhere_keep_all_other_words():
    function = ctypes.CFUNCTYPE(None, NUMBER, NUMBER)(lambda x, y: seen.append((x[0], y[0])))
    seen, numbers = [], (ctypes.c_int32 * 8)(*range(8))
    begin = ctypes.addressof(numbers)
    address = ctypes.cast(function, ctypes.c_void_p).value
    calls = Calls(address, 2, [(begin, 4), (begin + 8, 0)])
    other = calls.moved({FIRST + 2: begin + 16}, numbers)
    calls()
    other()
    assert seen == [(0, 2), (1, 2), (0, 4), (1, 4)]
