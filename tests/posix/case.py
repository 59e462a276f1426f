"""What the POSIX tests share: a registry of test functions, and helpers for things the os module
lacks. A test is a function of one argument, its own empty directory; assert reports."""
import contextlib
import ctypes
import errno
import os
import random
import struct
import traceback

CASES = []
libc = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE = 1, 2, 16
AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = 0x1000, 0x400
rng = random.Random()


def case(function):
    CASES.append(function)
    return function


class Skip(Exception):
    pass


def call(name, *args):
    """A C library call; OSError on -1."""
    ctypes.set_errno(0)
    result = getattr(libc, name)(*args)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f'{name}: {os.strerror(code)}')
    return result


def renameat2(old, new, flags):
    return call('renameat2', -100, os.fsencode(old), -100, os.fsencode(new), flags)


def fallocate(fd, mode, offset, length):
    return call('fallocate', fd, mode, ctypes.c_long(offset), ctypes.c_long(length))


@contextlib.contextmanager
def fails(*codes):
    """The block must raise OSError with one of the codes."""
    names = [errno.errorcode[c] for c in codes]
    try:
        yield
    except OSError as e:
        assert e.errno in codes, f'errno {errno.errorcode.get(e.errno)}, should be {names}'
        return
    raise AssertionError(f'succeeded, should fail with {names}')


def put(path, data=b'x', mode=0o644):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, 'wb') as f:
        f.write(data)
    return path


def get(path):
    with open(path, 'rb') as f:
        return f.read()


def equal(got, want, what=''):
    if got != want:
        if isinstance(got, bytes) and len(got) + len(want) > 200:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b),
                      min(len(got), len(want)))
            raise AssertionError(f'{what}: {len(got)} bytes, should be {len(want)}; '
                                 f'first difference at {at}')
        raise AssertionError(f'{what}: {got!r}, should be {want!r}')


def child(function, *args, uid=None, gid=None, groups=()):
    """Runs function in a child, as another user when uid is given; its exception is raised here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 0
        try:
            os.close(reader)
            if uid is not None:
                os.setgroups(list(groups))
                os.setgid(uid if gid is None else gid)
                os.setuid(uid)
            function(*args)
        except BaseException:
            os.write(writer, traceback.format_exc(limit=-2).encode()[:60000])
            status = 1
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, 'rb') as f:
        text = f.read().decode()
    _, status = os.waitpid(pid, 0)
    assert status == 0, text.strip() or f'child ended with status {status}'


def as_user(function, *args, uid=1000, gid=None, groups=()):
    if os.geteuid() != 0:
        raise Skip('needs root')
    child(function, *args, uid=uid, gid=gid, groups=groups)


def together(count, function, *args):
    """count children at a time, each with its number as first argument."""
    reader, writer = os.pipe()
    pids = []
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            status = 0
            try:
                os.close(reader)
                function(i, *args)
            except BaseException:
                os.write(writer, traceback.format_exc(limit=-2).encode()[:4000])
                status = 1
            os._exit(status)
        pids.append(pid)
    os.close(writer)
    with os.fdopen(reader, 'rb') as f:
        text = f.read().decode()
    bad = [p for p in pids if os.waitpid(p, 0)[1] != 0]
    assert not bad, text or f'{len(bad)} children failed'


def dirents(fd, size=4096):
    """One getdents64 from fd: [(inode, cookie of the next entry, type, name)]."""
    buf = ctypes.create_string_buffer(size)
    n = call('syscall', 217, fd, buf, size)
    rows, at = [], 0
    while at < n:
        ino, off, length, kind = struct.unpack_from('<QqHB', buf.raw, at)
        name = buf.raw[at + 19:at + length].split(b'\0')[0]
        rows.append((ino, off, kind, name))
        at += length
    return rows


def all_dirents(fd, size=4096):
    rows = []
    while True:
        more = dirents(fd, size)
        if not more:
            return rows
        rows += more


def name_to_handle(path, flags=0):
    """(mount id, handle bytes with their head)"""
    buf = ctypes.create_string_buffer(8 + 128)
    struct.pack_into('<I', buf, 0, 128)
    mount = ctypes.c_int()
    call('name_to_handle_at', -100, os.fsencode(path), buf, ctypes.byref(mount), flags)
    length = struct.unpack_from('<I', buf)[0]
    return mount.value, buf.raw[:8 + length]


def open_by_handle(mount_fd, handle, flags=os.O_RDONLY):
    buf = ctypes.create_string_buffer(handle, len(handle))
    return call('open_by_handle_at', mount_fd, buf, flags)


def forget_cache(path):
    """Makes the kernel ask the file system again, as far as it can be made to."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    if os.geteuid() == 0:
        try:
            with open('/proc/sys/vm/drop_caches', 'w') as f:
                f.write('3')
        except OSError:
            pass
