"""Object cache: ownership, damage, races, special files, failing folders, pruning."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tfn._support import events
from tfn.config import config
from tfn.hw.compile import object_cache, tuning_cache
from tfn.hw.compile.kernel_cache import KernelCache
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.lower.program import CachedKernel

KEY, OTHER = "ab" * 32, "cd" * 32
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the part called objects, which is not there yet."""
    monkeypatch.setattr(config, "cache_dir", tmp_path / "deep" / "cache")
    monkeypatch.setattr(config, "disk_cache", True)
    monkeypatch.setattr(object_cache, "_warned", set())
    return tmp_path / "deep" / "cache" / "objects"


def fetch() -> bytes | None:
    return object_cache.fetch("objects", KEY)


def store(data: bytes = b"code", key: str = KEY) -> bool:
    return object_cache.store("objects", key, data)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_stored_bytes_are_fetched(folder: Path) -> None:
    assert fetch() is None
    assert store() and fetch() == b"code"
    assert [p.name for p in folder.iterdir()] == [f"{KEY}.bin"]
    assert store(b"") and fetch() == b""


def test_nobody_else_may_look_at_what_is_made(folder: Path) -> None:
    before = os.umask(0)
    try:
        store()
    finally:
        os.umask(before)
    assert mode(folder) == mode(folder.parent) == mode(folder.parent.parent) == 0o700
    assert mode(folder / f"{KEY}.bin") == 0o600


def test_without_a_disk_cache_the_disk_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    assert not store() and fetch() is None and not folder.exists()


@pytest.mark.parametrize("key", ["", "ab", "../" * 20 + "abcd", KEY.upper(), KEY + "\n", "é" * 64])
def test_a_key_is_a_digest(key: str) -> None:
    assert object_cache.fetch("objects", key) is None


@pytest.mark.parametrize("of", ["folder", "part"])
@pytest.mark.parametrize("bits", [0o770, 0o707, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(folder: Path, of: str, bits: int) -> None:
    store()
    wrong = folder if of == "part" else folder.parent
    wrong.chmod(bits)
    with pytest.warns(RuntimeWarning, match=f"others may write to {wrong}, whose mode is {bits:o}"):
        assert fetch() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning is enough
        assert not store() and fetch() is None
    wrong.chmod(0o755)
    assert fetch() == b"code"


@as_root
@pytest.mark.parametrize("of", ["folder", "part"])
def test_a_folder_of_another_user_is_refused(folder: Path, of: str) -> None:
    store()
    wrong = folder if of == "part" else folder.parent
    os.chown(wrong, NOBODY, -1)
    with pytest.warns(RuntimeWarning, match=f"{wrong} belongs to another user"):
        assert not store()
    assert fetch() is None


def test_the_owner_is_compared_with_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match=f"{folder.parent} belongs to another user"):
        assert fetch() is None


def test_a_file_of_another_user_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    store()
    real = os.fstat

    def fstat(file: int) -> os.stat_result:
        found = list(real(file))
        found[stat.ST_UID] += stat.S_ISREG(found[stat.ST_MODE])
        return os.stat_result(found)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fstat)
        assert fetch() is None
    assert fetch() == b"code"


def test_parent_folders_may_be_writable_by_others(folder: Path) -> None:
    """Whoever puts a folder in the place of ours cannot make it the user's."""
    store()
    above = folder.parent.parent
    above.chmod(0o777)
    assert fetch() == b"code"
    folder.parent.rename(above / "aside")
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write"):
        assert fetch() is None


def test_a_part_is_no_link(folder: Path, tmp_path: Path) -> None:
    store()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert fetch() is None
    with pytest.warns(RuntimeWarning, match="not kept on disk"):
        assert not store()


def test_the_folder_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    """It is the user who says where it is."""
    (tmp_path / "disk").mkdir(0o700)
    folder.parent.parent.mkdir()
    folder.parent.symlink_to(tmp_path / "disk")
    assert store() and fetch() == b"code"


# Each puts something wrong at the place of a file.


def _link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's name is short
        try:
            made.bind("s")
        finally:
            os.chdir(here)
    path.with_name("s").rename(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _full_folder(path: Path) -> None:
    _folder(path)
    (path / "file").touch()


def _huge(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # without blocks


def _unreadable(path: Path) -> None:
    path.chmod(0)
    if os.geteuid() == 0:  # whom that does not stop
        path.write_bytes(b"")


WRONG: dict[str, Callable[[Path], None]] = {
    "link": _link,
    "loop": _loop,
    "pipe": _pipe,
    "socket": _socket,
    "folder": _folder,
    "full folder": _full_folder,
    "huge": _huge,
    "unreadable": _unreadable,
    "group": lambda path: path.chmod(0o620),
    "others": lambda path: path.chmod(0o602),
    "gone": lambda path: path.unlink(),
}
if os.geteuid() == 0:
    WRONG["owner"] = lambda path: os.chown(path, NOBODY, -1)
STAYS = {"folder", "full folder"}
"""What a file cannot replace."""


@pytest.mark.parametrize("wrong", WRONG)
def test_files_of_other_programs_are_ignored(folder: Path, wrong: str) -> None:
    store()
    path = folder / f"{KEY}.bin"
    WRONG[wrong](path)
    assert fetch() is None
    if wrong in STAYS:
        with pytest.warns(RuntimeWarning, match="not kept on disk"):
            assert not store()
        assert fetch() is None and [p.name for p in folder.iterdir()] == [path.name]
    else:
        assert store() and fetch() == b"code"
        assert path.is_file() and not path.is_symlink()


def test_a_file_cut_short_or_altered_anywhere_is_not_believed(folder: Path) -> None:
    store()
    path = folder / f"{KEY}.bin"
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at])
        assert fetch() is None, f"cut at {at}"
        for flip in (1, 0x80, 0xFF):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            assert fetch() is None, f"altered at {at}"
    path.write_bytes(good + b"\0")
    assert fetch() is None
    assert store() and path.read_bytes() == good


def test_a_renamed_file_is_ignored(folder: Path) -> None:
    store()
    shutil.copy(folder / f"{KEY}.bin", folder / f"{OTHER}.bin")
    assert object_cache.fetch("objects", OTHER) is None


def test_a_file_is_looked_at_after_it_was_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process puts at its name afterwards makes no difference."""
    store()
    path, real = folder / f"{KEY}.bin", os.open

    def opened(name: str, *args: int, **options: int) -> int:
        found = real(name, *args, **options)
        if name == path.name:
            path.unlink()
            os.mkfifo(path)
        return found

    monkeypatch.setattr(os, "open", opened)
    assert fetch() == b"code"


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("call", ["open", "write", "mkdir", "replace", "fstat", "close"])
@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EROFS", "EIO", "ENOENT", "EACCES", "EMFILE"])
def test_a_system_call_that_fails_gives_one_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: str
) -> None:
    real, fail = os.close, failing(getattr(errno, code))

    def close(file: int) -> None:
        real(file)
        fail()

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        patch.setattr(os, call, close if call == "close" else fail)
        assert not store() and not store() and fetch() is None
    assert [w.category for w in said] == [RuntimeWarning]
    assert "TFN_CACHE_DIR" in str(said[0].message)
    assert not list(folder.glob("*.part"))
    shutil.rmtree(folder.parent, ignore_errors=True)
    assert store() and fetch() == b"code"


def test_a_disk_that_fills_up_leaves_nothing_half_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, fail = os.write, failing(errno.ENOSPC)
    store(b"old")
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="No space left"):
        patch.setattr(os, "write", lambda file, data: real(file, data[:7]) if data[7:] else fail())
        assert not store(b"new")
    assert fetch() == b"old" and len(list(folder.iterdir())) == 1


def test_a_write_may_take_only_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:7]))
    assert store(b"x" * 100) and fetch() == b"x" * 100


def test_an_interrupt_leaves_nothing_half_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "write", interrupted)
        store()
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store()
    monkeypatch.setattr(os, "utime", failing(errno.EROFS))
    assert fetch() == b"code"


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_file_in_the_place_of_a_folder_gives_one_warning(folder: Path, at: int) -> None:
    place = [folder, folder.parent, folder.parent.parent][at]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("not a folder")
    assert fetch() is None
    with pytest.warns(RuntimeWarning, match="TFN_CACHE_DIR"):
        assert not store()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not store() and fetch() is None


def test_a_pipe_in_the_place_of_a_folder_is_not_waited_for(folder: Path) -> None:
    folder.parent.mkdir(parents=True, mode=0o700)
    os.mkfifo(folder)
    assert fetch() is None
    folder.unlink()
    folder.parent.rmdir()
    os.mkfifo(folder.parent)
    assert fetch() is None


def test_a_folder_that_vanishes_is_made_again(folder: Path) -> None:
    store()
    shutil.rmtree(folder.parent.parent)
    assert fetch() is None
    assert store() and fetch() == b"code"


def test_no_descriptor_is_left_open(folder: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    store()
    before = count()
    for wrong in WRONG.values():
        shutil.rmtree(folder)
        store()
        wrong(folder / f"{KEY}.bin")
        fetch()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning):
        fetch()
        store()
    assert count() == before


@pytest.fixture
def aged(folder: Path) -> dict[str, str]:
    """Five files, from the youngest to the oldest."""
    keys = {name: name * 64 for name in "abcde"}
    for age, key in enumerate(keys.values()):
        store(b"x" * 1000, key)
        os.utime(folder / f"{key}.bin", (1000 - age, 1000 - age))
    return keys


def test_the_oldest_are_pruned_first(folder: Path, aged: dict[str, str]) -> None:
    assert object_cache.fetch("objects", aged["e"]) is not None  # now the youngest
    begin_ns = time.perf_counter_ns()
    object_cache.prune("objects", limit_bytes=2200)
    (event,) = [e for e in events.events()[0] if e.kind == "cache" and e.begin_ns >= begin_ns]
    assert event.name == "disk eviction" and event.detail.endswith("bytes of objects")
    assert sorted(p.stem for p in folder.iterdir()) == [aged["a"], aged["e"]]


def test_files_of_other_programs_are_not_pruned(folder: Path, aged: dict[str, str]) -> None:
    foreign = {
        "notes.txt": b"mine",
        f"{OTHER}.bin": b"not made by this library",
        f"{OTHER}.o": b"mine",
        f"{OTHER}.0123456789abcdef.part": b"mine",
        "tfn.bin": b"tfn cache 1\n",
    }
    for name, content in foreign.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (1, 1))
    (folder / "folder").mkdir()
    target = folder.parent / "elsewhere"
    target.write_bytes(b"tfn cache 1\n" + b"x" * 100)
    (folder / f"{'9' * 64}.bin").symlink_to(target)
    object_cache.prune("objects", limit_bytes=0)
    assert {p.name for p in folder.iterdir()} == {*foreign, "folder", f"{'9' * 64}.bin"}
    assert target.exists()


def test_unfinished_files_of_dead_processes_are_pruned(folder: Path) -> None:
    store()
    content = (folder / f"{KEY}.bin").read_bytes()
    old, young = (folder / f"{KEY}.{digit * 16}.part" for digit in "12")
    for path in (old, young):
        path.write_bytes(content[:-2])
    os.utime(old, (1, 1))
    object_cache.prune("objects")
    assert sorted(folder.iterdir()) == [young, folder / f"{KEY}.bin"]


def test_some_stores_prune(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(object_cache, "prune", seen.append)
    store(key="0008" + KEY[4:])
    store(key="0007" + KEY[4:])
    assert seen == ["objects"]


def test_processes_share_a_folder(folder: Path) -> None:
    code = f"""
from tfn.hw.compile import object_cache
for i in range(200):
    assert object_cache.store("objects", {KEY!r}, b"z" * 100_000)
    assert object_cache.fetch("objects", {KEY!r}) == b"z" * 100_000
"""
    environment = os.environ | {"TFN_CACHE_DIR": str(folder.parent), "TFN_DISK_CACHE": "1"}
    many = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [process.wait(60) for process in many] == [0, 0, 0]
    assert [p.name for p in folder.iterdir()] == [f"{KEY}.bin"]


# The files of each part: what they hold is found, or made again, whatever happens to a file.

TEXT = "define i64 @f() {\n  ret i64 %s\n}\n"
WRITTEN = CachedKernel("k1", (("split", 0, 2, "upcast"),), 3, "define void @k1() {\n}\n", 7)


def _objects() -> object:
    compiler = LlvmCompiler()  # which has nothing in memory
    found = compiler.compile_all([TEXT % 1, TEXT.replace("@f", "@g") % 2], host())
    loaded = Loader(compiler).load_once(dict(zip("fg", found, strict=True)))
    return [ctypes.CFUNCTYPE(ctypes.c_int64)(loaded[name].addresses[name])() for name in "fg"]


def _kernels() -> object:
    found = KernelCache().find("body", host())
    if found is None:
        KernelCache().keep("body", host(), WRITTEN)
    return found or WRITTEN


def _plans() -> object:
    found = tuning_cache.find("k1", host())
    if found is None:
        tuning_cache.keep("k1", host(), (("a",),))
    return found or (("a",),)


PARTS: dict[str, tuple[Callable[[], object], object]] = {
    "objects": (_objects, [1, 2]),
    "kernels": (_kernels, WRITTEN),
    "plans": (_plans, (("a",),)),
}


@pytest.fixture
def part(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a part with the files that its use has made."""
    monkeypatch.setattr(tuning_cache, "_UNSAVED", {})
    use, result = PARTS[request.param]
    assert use() == result == use()
    return folder.parent / request.param


every_part = pytest.mark.parametrize("part", PARTS, indirect=True)


@every_part
@pytest.mark.parametrize("wrong", WRONG)
def test_every_part_is_made_again_over_damaged_files(part: Path, wrong: str) -> None:
    use, result = PARTS[part.name]
    for path in list(part.iterdir()):
        WRONG[wrong](path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert use() == result == use()


@every_part
def test_every_part_is_made_again_without_a_byte(part: Path) -> None:
    use, result = PARTS[part.name]
    for path in list(part.iterdir()):
        good = path.read_bytes()
        for at in range(0, len(good), max(1, len(good) // 40)):
            path.write_bytes(good[:at] + good[at + 1 :])
            assert use() == result
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            assert use() == result
            assert path.read_bytes() == good or part.name == "objects"


SENSELESS = {
    "objects": [b"see ", b"see ../../../../etc/passwd", b"see \xff", b"see " + KEY.encode()],
    "kernels": [
        *(
            b"",
            b"{",
            b"[" * 100_000,
            b"null",
            b"{}",
            b"1",
            b"\xff",
            b"[1, 2]",
            b"see " + KEY.encode(),
        ),
        *(b'["k1", [["a"]], 0, 7]\ntext', b'["k1", [1], 1, 7]\ntext', b'["k1", null, 1, 7]\ntext'),
        *(
            b'["k1", [["a"]], "1", 7]\ntext',
            b'["k1", [["a"]], 1, true]\n',
            b'["k1", [["a"]], 1, 7]\n\xff',
        ),
    ],
    "plans": [b"", b"{", b"[" * 100_000, b"null", b"{}", b"1", b"\xff", b"[1, 2]", b'"a"'],
}
"""By part; of an object, which is whatever the compiler has made, only what names another."""


@pytest.mark.parametrize(
    ("part", "content"),
    [(part, content) for part, contents in SENSELESS.items() for content in contents],
    indirect=["part"],
    ids=lambda value: str(value)[:20],
)
def test_malformed_content_is_ignored(part: Path, content: bytes) -> None:
    """As another version might have written it; the checksum is right."""
    use, result = PARTS[part.name]
    for path in list(part.iterdir()):
        object_cache.store(part.name, path.stem, content)
    assert use() == result == use()


@pytest.mark.parametrize("state", ["refused", "vanished", "full", "pipes"])
def test_a_process_computes_without_its_cache(tmp_path: Path, state: str) -> None:
    code = """
import errno, os, shutil, sys, warnings
import tfn, tfn.numpy as tnp
state, folder = sys.argv[1], tfn.config.cache_dir
warnings.simplefilter("ignore" if state in ("refused", "full") else "error")
f = tfn.jit(lambda x: tnp.sin(x) @ x)
x = tnp.ones((4, 4))
before = f(x).tolist()
def full(*_): raise OSError(errno.ENOSPC, "No space left on device")
if state == "refused":
    folder.chmod(0o777)
elif state == "vanished":
    shutil.rmtree(folder)
elif state == "full":
    os.write = full
else:
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        path.unlink()
        os.mkfifo(path)
tfn.run.clear_caches()
tfn.eager.registry.DEVICES.clear()
assert tfn.jit(lambda x: tnp.sin(x) @ x)(x).tolist() == before
assert tfn.jit(lambda x: tnp.cos(x) @ x)(x).shape == (4, 4)
"""
    environment = os.environ | {
        "TFN_CACHE_DIR": str(tmp_path / "c"),
        "TFN_DISK_CACHE": "1",
        "TFN_DEVICE": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, state],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
