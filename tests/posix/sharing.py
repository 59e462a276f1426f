"""POSIX tests of what files share: locks, handles, space figures, concurrent use."""
import errno
import fcntl
import os
import struct
import threading
import time

from lab import SLOW
from case import (Skip, call, case, child, equal, fails, forget_cache, get, name_to_handle,
                  open_by_handle, put, rng, together)


def wait_in_child(function):
    """Starts function in a child that then waits for end(); returns end."""
    ready_r, ready_w = os.pipe()
    end_r, end_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        keep = function()
        os.write(ready_w, b'r')
        os.close(end_w)
        os.read(end_r, 1)
        del keep
        os._exit(0)
    os.close(end_r)
    equal(os.read(ready_r, 1), b'r', 'the other process')

    def end():
        os.close(end_w)
        os.waitpid(pid, 0)
    return end


@case
def flock_between_processes(d):
    put('f')

    def hold(kind):
        fd = os.open('f', os.O_RDWR)
        fcntl.flock(fd, kind)
        return fd
    fd = os.open('f', os.O_RDWR)
    end = wait_in_child(lambda: hold(fcntl.LOCK_SH))
    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with fails(errno.EAGAIN):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    end()
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_UN)
    end = wait_in_child(lambda: hold(fcntl.LOCK_EX))
    with fails(errno.EAGAIN):
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    got = threading.Event()

    def blocked():
        fcntl.flock(fd, fcntl.LOCK_EX)
        got.set()
    thread = threading.Thread(target=blocked)
    thread.start()
    end()
    thread.join(20)
    assert got.is_set(), 'the waiting lock was never granted'


@case
def record_locks(d):
    put('f', b'x' * 100)
    fd = os.open('f', os.O_RDWR)

    def hold():
        f = os.open('f', os.O_RDWR)
        fcntl.lockf(f, fcntl.LOCK_EX, 10, 20)
        return f
    end = wait_in_child(hold)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 20, 0)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 30)
    with fails(errno.EAGAIN, errno.EACCES):
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 29)
    kind = struct.unpack('hhqqi', fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(
        'hhqqi', fcntl.F_WRLCK, 0, 15, 10, 0)))
    equal((kind[0], kind[2], kind[3]), (fcntl.F_WRLCK, 20, 10), 'who holds it')
    end()
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 0)


@case
def open_file_description_locks(d):
    put('f')
    a, b = os.open('f', os.O_RDWR), os.open('f', os.O_RDWR)
    lock = struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 10, 0)
    fcntl.fcntl(a, fcntl.F_OFD_SETLK, lock)
    with fails(errno.EAGAIN, errno.EACCES):
        fcntl.fcntl(b, fcntl.F_OFD_SETLK, lock)
    os.close(a)
    fcntl.fcntl(b, fcntl.F_OFD_SETLK, lock)


def settled():
    """statvfs when what earlier tests have deleted has come back: several small changes, each on
    disk, do not move it any more."""
    seen, steady = os.statvfs('.'), 0
    end = time.monotonic() + 60 * SLOW
    while steady < 5:
        with open('tick', 'w') as f:
            f.write(str(steady))
            f.flush()
            os.fsync(f.fileno())
        now = os.statvfs('.')
        steady = steady + 1 if abs(now.f_bavail - seen.f_bavail) * now.f_frsize < 1 << 20 else 0
        seen = now
        assert time.monotonic() < end, 'the free space never comes to rest'
    return seen


@case
def space_figures(d):
    """statfs is consistent, and moves by what is written."""
    st = settled()
    assert st.f_bsize and st.f_frsize and st.f_blocks, st
    assert st.f_blocks >= st.f_bfree >= st.f_bavail > 0, st
    assert st.f_files >= st.f_ffree > 0, st
    equal(st.f_namemax, 255, 'longest name')
    size = 24 << 20
    with open('f', 'wb') as f:
        f.write(rng.randbytes(size))
        f.flush()
        os.fsync(f.fileno())
    used = (st.f_bavail - settled().f_bavail) * st.f_frsize
    assert size * 0.95 < used < size * 1.1 + (1 << 20), f'{used} bytes less for {size} written'
    blocks = os.stat('f').st_blocks * 512
    assert size <= blocks < size * 1.2, f'{blocks} bytes in blocks for {size}'
    with open('z', 'wb') as f:
        f.truncate(100 << 20)
        f.flush()
        os.fsync(f.fileno())
    assert os.stat('z').st_blocks < 1000, 'a file that is one hole takes space'


@case
def space_figures_under_load(d):
    """While others write and remove, no statfs is torn."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            put('f', bytes(range(256)) * 4000)
            os.unlink('f')
    thread = threading.Thread(target=work)
    thread.start()
    try:
        total = None
        end = time.monotonic() + 3
        while time.monotonic() < end:
            st = os.statvfs('.')
            assert st.f_blocks >= st.f_bfree >= st.f_bavail, st
            size = st.f_blocks * st.f_frsize
            total = total or size
            assert abs(size - total) < total // 4, f'size jumped from {total} to {size}'
    finally:
        stop.set()
        thread.join()


@case
def handles(d):
    """name_to_handle_at and open_by_handle_at: NFS can export it."""
    if os.geteuid() != 0:
        raise Skip('needs root')
    put('f', b'by handle')
    os.mkdir('sub')
    put('sub/g', b'below')
    mount_fd = os.open('.', os.O_RDONLY)
    _, file_handle = name_to_handle('f')
    _, dir_handle = name_to_handle('sub')
    _, deep_handle = name_to_handle('sub/g')
    equal(len({file_handle, dir_handle, deep_handle}), 3, 'different handles')
    equal(name_to_handle('f')[1], file_handle, 'same handle again')

    def read(handle):
        fd = open_by_handle(mount_fd, handle)
        data = os.read(fd, 100)
        os.close(fd)
        return data
    equal(read(file_handle), b'by handle')
    forget_cache('f')
    equal(read(file_handle), b'by handle', 'after forgetting')
    os.rename('f', 'sub/f2')
    os.rename('sub', 'moved')
    forget_cache('moved/f2')
    equal(read(file_handle), b'by handle', 'after renaming')
    equal(read(deep_handle), b'below', 'in a moved directory')
    fd = open_by_handle(mount_fd, dir_handle, os.O_RDONLY | os.O_DIRECTORY)
    equal(sorted(os.listdir(fd)), ['f2', 'g'])
    os.close(fd)
    fd = os.open('moved/f2', os.O_RDONLY)
    os.unlink('moved/f2')
    equal(read(file_handle), b'by handle', 'unlinked but open')
    os.close(fd)
    for i in range(50):
        put(f'new{i}', b'another')       # may get its number, must not get its handle
    forget_cache('.')
    with fails(errno.ESTALE):
        read(file_handle)


@case
def generation_of_reused_numbers(d):
    """A handle of a removed file never opens a later one."""
    if os.geteuid() != 0:
        raise Skip('needs root')
    mount_fd = os.open('.', os.O_RDONLY)
    old = []
    for i in range(200):
        put(f'f{i}')
        old.append(name_to_handle(f'f{i}')[1])
    for i in range(200):
        os.unlink(f'f{i}')
    fd = os.open('.', os.O_RDONLY)
    os.fsync(fd)
    for i in range(400):
        put(f'g{i}')
    forget_cache('.')
    for handle in old:
        with fails(errno.ESTALE):
            os.close(open_by_handle(mount_fd, handle))


@case
def many_hands(d):
    """Processes make, write, rename, link, read and remove in the same directories; nothing fails
    in a way that the rules don't allow, and what each leaves is right."""
    for i in range(3):
        os.mkdir(f'd{i}')

    def work(n):
        for i in range(250):
            a = f'd{rng.randrange(3)}/w{n}-{i % 20}'
            b = f'd{rng.randrange(3)}/w{n}-{rng.randrange(20)}'
            blob = b'%d-%d-' % (n, i) * rng.randrange(1, 2000)
            put(a, blob)
            equal(get(a), blob)
            os.rename(a, b)
            equal(get(b), blob)
            os.listdir(f'd{i % 3}')
            if i % 3 == 0:
                os.link(b, b + '.l')
                os.unlink(b)
                equal(get(b + '.l'), blob)
                os.rename(b + '.l', b)
            if i % 4 == 0:
                os.unlink(b)
    together(6, work)
    for i in range(3):
        for name in os.listdir(f'd{i}'):
            assert get(f'd{i}/{name}').startswith(name.split('-')[0][1:].encode() + b'-'), name


@case
def create_race(d):
    """Of many that create a name exclusively, exactly one succeeds."""
    def work(n):
        for i in range(200):
            try:
                os.close(os.open(f'x{i}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                put(f'won{n}-{i}')
            except FileExistsError:
                pass
    together(4, work)
    won = [x for x in os.listdir('.') if x.startswith('won')]
    equal(len(won), 200, 'winners')


@case
def rename_race(d):
    """A name that is replaced all the time is always there, whole."""
    put('target', b'0' * 5000)
    stop_r, stop_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(stop_w)
        os.set_blocking(stop_r, False)
        i = 0
        while True:
            try:
                os.read(stop_r, 1)
                os._exit(0)
            except BlockingIOError:
                pass
            put('tmp', b'%d' % (i % 10) * 5000)
            os.rename('tmp', 'target')
            i += 1
    try:
        for _ in range(3000):
            data = get('target')
            equal(len(data), 5000, 'size')
            equal(len(set(data)), 1, 'kinds of bytes')
    finally:
        os.close(stop_w)
        os.waitpid(pid, 0)


@case
def locks_end_with_the_process(d):
    put('f')

    def hold():
        fd = os.open('f', os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        fcntl.flock(os.open('f', os.O_RDWR), fcntl.LOCK_EX)
    child(hold)
    fd = os.open('f', os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@case
def leases_or_a_clear_no(d):
    """A write lease is granted or refused with an errno that programs understand."""
    put('f')
    fd = os.open('f', os.O_RDWR)
    try:
        call('fcntl', fd, 1024, 1)
    except OSError as e:
        assert e.errno in (errno.EINVAL, errno.EAGAIN, errno.ENOLCK, errno.EOPNOTSUPP), e
