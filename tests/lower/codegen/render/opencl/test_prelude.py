"""The prelude of OpenCL kernels, and the words that follow it."""

from __future__ import annotations

from tfn.lower.codegen.render.opencl.prelude import PRELUDE, with_words


def test_parts_are_separated_by_empty_lines() -> None:
    parts = with_words("__kernel void k() { half_f32(floor_f32(x)); }\n").split("\n\n")
    assert parts[0] == PRELUDE.strip() and parts[-1].startswith("__kernel void k()")
    names = ["bits_f32_u32", "bits_u32_f32", "half_f32", "floor_f32"]
    assert len(parts) == 2 + len(names)
    assert all(f"{name}(" in part for name, part in zip(names, parts[1:-1], strict=True))


def test_functions_of_the_library_serve_all_types() -> None:
    text = with_words("fma_f32(a, b, c); floor_f64(a); round_f32(a);")
    assert "fma(a, b, c)" in text and "floor(a)" in text and "rint(a)" in text
    assert "fmaf" not in text and "rintf" not in text


def test_literals_of_64_bits_are_long() -> None:
    assert with_words("x = 12ull; y = 0x7fffull; z = full;").endswith(
        "x = 12ul; y = 0x7ffful; z = full;\n"
    )


def test_products_are_rounded_before_they_are_added() -> None:
    assert "FP_CONTRACT OFF" in PRELUDE
