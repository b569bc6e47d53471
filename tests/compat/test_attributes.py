"""Attributes of JAX's arrays that libraries ask for."""

from tests.compat.test_install import run


def test_arrays_have_them_in_a_process_of_their_own() -> None:
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import jax.numpy as jnp
        x = jnp.ones(2)
        print(x.view(jnp.int32).tolist(), x.aval, x.is_ready(), x.clone().tolist())
        print(x.on_device_size_in_bytes(), x.tobytes() == b"\\0\\0\\x80?" * 2)
        a = jnp.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])
        print(a[0].argpartition(0)[0], jnp.array([1, 0]).choose(a[:, :2]).tolist())
        print(a.compress(jnp.array([False, True]), 0).tolist())
    """)
    assert out == (
        "[1065353216, 1065353216] float32[2] True [1.0, 1.0]\n8 True\n"
        "1 [9.0, 1.0]\n[[9.0, 7.0, 8.0]]\n"
    )


def test_the_primal_of_an_array_that_is_differentiated_is_its_value() -> None:
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import jax
        def f(x):
            y = x * x
            print(y.primal, type(y.primal) is type(x))
            return y
        print(jax.grad(f)(3.0).item(), hasattr(jax.numpy.ones(1), "primal"))
        print(jax.jit(jax.grad(f))(3.0).item())
    """)
    assert out == "9.0 True\n6.0 False\nTraced<f32[] of f> True\n6.0\n"


def test_jitted_functions_tell_how_often_they_were_traced() -> None:
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import jax
        f = jax.jit(lambda x: 2 * x)
        print(f._cache_size(), f(1.0).item(), f(1).item(), f._cache_size())
        f._clear_cache()
        print(f._cache_size())
    """)
    assert out == "0 2.0 2 2\n0\n"


def test_each_jit_of_a_function_has_the_programs_of_the_others() -> None:
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import gc, weakref
        import jax
        import jax.numpy as jnp

        def f(x, n=2):
            print("traced")
            return x * n * jnp.ones(3)

        for x in (1.0, 2.0, 3):
            print(jax.jit(f)(x).tolist())
        print(jax.jit(f, static_argnames="n")(1.0, n=3).tolist())
        jax.config.update("jax_enable_x64", True)
        print(jax.jit(f)(4).dtype)
        jax.jit(f)._clear_cache()
        print(jax.jit(f)(4).dtype)
        alive = weakref.ref(f)
        del f
        gc.collect()
        print(alive())
    """)
    assert out == (
        "traced\n[2.0, 2.0, 2.0]\n[4.0, 4.0, 4.0]\ntraced\n[6.0, 6.0, 6.0]\n"
        "traced\n[3.0, 3.0, 3.0]\ntraced\nfloat64\ntraced\nfloat64\nNone\n"
    )
