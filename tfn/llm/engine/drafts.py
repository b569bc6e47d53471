"""Drafts of tokens by looking up the prompt: what followed the last time that the text was so.

Answers repeat their prompts: names, quotations, code.  The tokens after an earlier occurrence of
the last few are guessed to follow again, and the network computes all of them in one step.  A guess
that differs from the token that is then chosen is thrown away, so answers stay the same.

Source: Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding; Leviathan et al. 2023,
arXiv:2211.17192 (verification).
"""

from __future__ import annotations

from collections.abc import Sequence

LENGTHS = (4, 3, 2)
"""Tokens at the end of a text that are looked up; longer ones first."""


class Drafts:
    """A text, and where each run of a few tokens was last in it.

    Args:
        tokens: of the text; `draft` sees what is added to it.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens
        self.read = 0
        self.after: dict[tuple[int, ...], int] = {}
        self.most = 2

    def draft(self, most: int) -> list[int]:
        """At most so many tokens that may follow."""
        count = len(self.tokens)
        most = min(most, self.most)
        if most < 1:
            return []
        for end in range(self.read, count):  # the last tokens are looked up, not entered
            for length in LENGTHS:
                if end >= length:
                    self.after[tuple(self.tokens[end - length : end])] = end
        self.read = count
        for length in LENGTHS:
            at = self.after.get(tuple(self.tokens[count - length :]))
            if count >= length and at is not None:
                found = [*self.tokens[at : at + most]]
                while len(found) < most:  # the text repeats itself with this period
                    found.append(found[len(found) - (count - at)])
                return found
        return []

    def judge(self, drafted: int, accepted: int) -> None:
        """Longer drafts after those that were right, shorter ones after others."""
        if drafted:
            self.most = min(2 * self.most, 64) if accepted == drafted else max(accepted, 1)
