"""Private parts of JAX that libraries import."""

import sys

from tfn.compat import private


def test_frames_of_tfn_are_told_apart():
    private.register_exclusion(__file__)
    assert private.include_frame(sys._getframe())
    frames = []
    with private.user_context(None):
        frames.append(private.api_boundary(sys._getframe)())
    assert private.include_frame(frames[0]) and private.current() is None


def test_the_registry_knows_nodes():
    assert dict in private.REGISTRY and int not in private.REGISTRY
