"""POSIX tests of file content: reading, writing, holes, appending, mapping, unlinked files."""
import errno
import mmap
import os
import signal
import subprocess
import time

from case import (AT_SYMLINK_FOLLOW, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, call,
                  case, child, equal, fails, fallocate, forget_cache, get, put, rng, together)

END = (1 << 63) - 1


def opened(path, flags=os.O_RDWR | os.O_CREAT, mode=0o644):
    return os.open(path, flags, mode)


@case
def sparse_to_the_end(d):
    """A byte just below 2^63, and the size that goes with it."""
    fd = opened('f')
    os.pwrite(fd, b'first', 0)
    os.pwrite(fd, b'E', END - 1)
    equal(os.fstat(fd).st_size, END, 'size')
    equal(os.pread(fd, 4, END - 4), b'\0\0\0E', 'tail')
    equal(os.pread(fd, 4, 1 << 50), bytes(4), 'hole')
    os.ftruncate(fd, 5)
    os.ftruncate(fd, END)
    equal(os.pread(fd, 1, END - 1), b'\0', 'grown again')
    os.close(fd)
    forget_cache('f')
    equal(os.stat('f').st_size, END, 'size later')
    os.truncate('f', 5)
    equal(get('f'), b'first')


@case
def sparse_levels(d):
    """Data far apart: SEEK_DATA must find each piece in order, synced or not (and while syncing)."""
    fd = opened('f')
    places = [0, 3 * 131072, 1024 * 131072, 5 << 30, 3 << 40]
    for i, at in enumerate(places):
        os.pwrite(fd, b'data%d' % i, at)
        if i % 2:
            os.fsync(fd)
    for _ in range(3):
        at = 0
        for i, place in enumerate(places):
            found = os.lseek(fd, at, os.SEEK_DATA)
            assert at <= found <= place, f'data at {found}, should be at {place} or just before'
            assert place - found < 1 << 20, f'data at {found} for {place}'
            equal(os.pread(fd, 5, place), b'data%d' % i)
            at = place + 1
            if i + 1 < len(places):
                hole = os.lseek(fd, at, os.SEEK_HOLE)
                assert hole <= places[i + 1], f'no hole between {place} and {places[i + 1]}'
                at = hole
        os.fsync(fd)
        forget_cache('f')


@case
def seek_on_unsynced_file(d):
    """SEEK_DATA and SEEK_HOLE at, before and past the end of what was just written."""
    fd = opened('f')
    with fails(errno.ENXIO):
        os.lseek(fd, 0, os.SEEK_DATA)
    with fails(errno.ENXIO):
        os.lseek(fd, 0, os.SEEK_HOLE)
    os.write(fd, b'x' * 10000)
    for sync in (False, True):
        if sync:
            os.fsync(fd)
        equal(os.lseek(fd, 0, os.SEEK_DATA), 0)
        equal(os.lseek(fd, 9999, os.SEEK_DATA), 9999)
        equal(os.lseek(fd, 0, os.SEEK_HOLE), 10000)
        for whence in (os.SEEK_DATA, os.SEEK_HOLE):
            with fails(errno.ENXIO):
                os.lseek(fd, 10000, whence)
            with fails(errno.ENXIO):
                os.lseek(fd, 1 << 40, whence)
    with fails(errno.EINVAL, errno.ENXIO):
        os.lseek(fd, -1, os.SEEK_SET)


@case
def dirty_data_is_never_a_hole(d):
    """Many processes write a file and ask at once where its data is; cp must copy it whole."""
    def work(n):
        os.mkdir(f'w{n}')
        for i in range(400):
            path = f'w{n}/f{i}'
            fd = opened(path)
            blob = b'%06d' % i * rng.randrange(1, 3000)
            os.write(fd, blob)
            equal(os.lseek(fd, 0, os.SEEK_DATA), 0, f'{path}: first data')
            hole = os.lseek(fd, 0, os.SEEK_HOLE)
            equal(hole, len(blob), f'{path}: first hole')
            os.close(fd)
            if i % 40 == 0:
                subprocess.run(['cp', '--sparse=always', path, path + 'c'], check=True)
                equal(get(path + 'c'), blob, 'the copy')
    together(2 * os.cpu_count(), work)


@case
def copy_of_a_sparse_file(d):
    """cp of a file with holes ends, and copies it right."""
    with open('f', 'wb') as f:
        for at in (1 << 20, 9 << 20, 30 << 20):
            f.seek(at)
            f.write(b'island' * 100)
        f.truncate(40 << 20)
    for how in ('auto', 'always', 'never'):
        subprocess.run(['cp', f'--sparse={how}', 'f', how], check=True, timeout=60)
        equal(get(how), get('f'), how)


@case
def truncate_shorter_and_longer(d):
    """What was cut off comes back as zeros, at every alignment."""
    fd = opened('f')
    for keep in (0, 1, 511, 4096, 70000, 131071, 131072, 131073, 299999):
        os.pwrite(fd, b'\xff' * 300000, 0)
        if keep % 2:
            os.fsync(fd)
        os.ftruncate(fd, keep)
        os.ftruncate(fd, 300000)
        equal(os.pread(fd, 300001, 0), b'\xff' * keep + bytes(300000 - keep), f'cut at {keep}')
    with fails(errno.EINVAL):
        os.ftruncate(fd, -1)
    with fails(errno.EISDIR):
        os.truncate('.', 0)
    with fails(errno.ENOENT):
        os.truncate('none', 0)


@case
def punched_holes(d):
    """Zeros where a hole was punched, the rest untouched, the size kept."""
    blob = rng.randbytes(1 << 20)
    for off, length in ((0, 1), (5, 100), (4096, 4096), (100000, 400000), (131072, 262144),
                        (0, 1 << 20), (1000000, 1 << 20), (1 << 21, 4096)):
        put('f', blob)
        fd = opened('f')
        if off % 2:
            os.fsync(fd)
        fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, off, length)
        want = bytearray(blob)
        stop = min(off + length, len(want))
        if off < stop:
            want[off:stop] = bytes(stop - off)
        equal(os.pread(fd, 1 << 21, 0), bytes(want), f'punched {off}+{length}')
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        equal(os.pread(fd, 1 << 21, 0), bytes(want), f'punched {off}+{length}, read again')
        os.close(fd)
    fd = opened('f')
    with fails(errno.EINVAL):
        fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 0, 0)
    with fails(errno.EOPNOTSUPP, errno.EINVAL):
        fallocate(fd, FALLOC_PUNCH_HOLE, 0, 10)


@case
def a_punched_block_is_a_hole(d):
    """A hole of many blocks gives its space back and is seen by SEEK_HOLE."""
    fd = opened('f')
    os.write(fd, rng.randbytes(8 << 20))
    os.fsync(fd)
    fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 2 << 20, 4 << 20)
    os.fsync(fd)
    hole = os.lseek(fd, 0, os.SEEK_HOLE)
    data = os.lseek(fd, 3 << 20, os.SEEK_DATA)
    equal((hole, data), (2 << 20, 6 << 20), 'hole and data after it')


@case
def fallocate_grows(d):
    """Growing by fallocate moves size, mtime and ctime; KEEP_SIZE moves no size."""
    fd = opened('f')
    os.write(fd, b'abc')
    os.utime(fd, (1, 1))
    try:
        fallocate(fd, 0, 0, 100000)
    except OSError as e:
        if e.errno == errno.EOPNOTSUPP:
            raise AssertionError('fallocate is not supported') from e
        raise
    st = os.fstat(fd)
    equal(st.st_size, 100000, 'size')
    assert st.st_mtime > 1000, 'mtime did not move'
    equal(os.pread(fd, 100000, 0), b'abc' + bytes(99997))
    with fails(errno.EINVAL):
        fallocate(fd, 0, -1, 10)
    with fails(errno.EBADF):
        ro = opened('f', os.O_RDONLY)
        fallocate(ro, 0, 0, 10)
    try:
        fallocate(fd, FALLOC_KEEP_SIZE, 0, 300000)
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
    equal(os.fstat(fd).st_size, 100000, 'size after KEEP_SIZE')
    try:
        fallocate(fd, FALLOC_ZERO_RANGE, 1, 150000)
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        return
    equal(os.pread(fd, 200000, 0), b'a' + bytes(150000), 'zeroed range')


@case
def truncate_to_the_same_size(d):
    """Space reserved behind the end is not read back as data when the file grows."""
    fd = opened('f')
    os.write(fd, b'x' * 5000)
    try:
        fallocate(fd, FALLOC_KEEP_SIZE, 0, 1 << 20)
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
    os.ftruncate(fd, 5000)
    equal(os.fstat(fd).st_size, 5000)
    os.ftruncate(fd, 1 << 20)
    equal(os.pread(fd, 1 << 20, 5000), bytes((1 << 20) - 5000), 'behind the old end')


@case
def append_lands_at_the_end(d):
    """O_APPEND writes ignore the offset; pwrite too, on Linux."""
    put('f', b'0123456789')
    fd = opened('f', os.O_RDWR | os.O_APPEND)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b'A')
    equal(os.lseek(fd, 0, os.SEEK_CUR), 11, 'offset after the write')
    os.pwrite(fd, b'B', 3)
    os.lseek(fd, 2, os.SEEK_SET)
    os.writev(fd, [b'C', b'D'])
    equal(get('f'), b'0123456789ABCD')
    other = opened('f', os.O_RDWR | os.O_APPEND)
    os.write(other, b'E')
    os.write(fd, b'F')
    equal(get('f'), b'0123456789ABCDEF', 'two descriptors')


@case
def appends_of_many_processes(d):
    """None is lost, none torn."""
    put('f', b'')

    def work(n):
        fd = opened('f', os.O_WRONLY | os.O_APPEND)
        for i in range(150):
            record = b'%02d-%04d-' % (n, i)
            os.write(fd, record + b'.' * (99 - len(record)) + b'\n')
    together(8, work)
    lines = get('f').split(b'\n')[:-1]
    equal(len(lines), 8 * 150, 'records')
    equal(len({x[:8] for x in lines}), 8 * 150, 'different records')
    equal({len(x) for x in lines}, {99}, 'lengths')


@case
def writes_of_many_processes(d):
    """Each writes its own part of one file, across block bounds; all is there."""
    size = 1 << 20

    def work(n):
        fd = opened('f')
        for i in range(100):
            off = (i * 8 + n) * 1000
            os.pwrite(fd, bytes([n + 1]) * 1000, off)
        os.fsync(fd)
    put('f', b'')
    together(8, work)
    want = b''.join(bytes([n + 1]) * 1000 for _ in range(100) for n in range(8))
    equal(get('f'), want[:size])


@case
def unlinked_but_open(d):
    """An open file lives on without a name."""
    put('f', b'still here')
    fd = opened('f')
    other = opened('f', os.O_RDONLY)
    os.unlink('f')
    with fails(errno.ENOENT):
        os.stat('f')
    equal(os.fstat(fd).st_nlink, 0, 'links')
    os.pwrite(fd, b'W', 100000)
    os.ftruncate(fd, 200000)
    os.fchmod(fd, 0o600)
    os.setxattr(fd, 'user.a', b'v')
    os.fsync(fd)
    equal(os.pread(other, 10, 0), b'still here')
    equal(os.pread(other, 1, 100000), b'W')
    put('f', b'another')
    equal(os.pread(other, 10, 0), b'still here', 'beside a new file of the name')
    again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
    equal(os.pread(again, 5, 0), b'still')
    os.close(fd)
    os.close(other)
    equal(os.pread(again, 5, 0), b'still', 'through the last descriptor')


@case
def removed_but_open_directory(d):
    os.mkdir('d')
    fd = os.open('d', os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir('d')
    equal(os.listdir(fd), [])
    with fails(errno.ENOENT):
        os.open('x', os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
    with fails(errno.ENOENT):
        os.mkdir('x', dir_fd=fd)
    os.fstat(fd)


@case
def files_without_a_name(d):
    """O_TMPFILE, and a name given later."""
    def name_it(name):
        call('linkat', -100, f'/proc/self/fd/{fd}'.encode(), -100, name.encode(), AT_SYMLINK_FOLLOW)
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b'hidden')
    equal(os.fstat(fd).st_nlink, 0, 'links')
    equal(os.listdir('.'), [])
    name_it('named')
    equal(get('named'), b'hidden')
    equal(os.stat('named').st_nlink, 1, 'links')
    equal(os.stat('named').st_mode & 0o7777, 0o640, 'mode')
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
    with fails(errno.ENOENT):
        name_it('refused')
    with fails(errno.EINVAL, errno.EISDIR):
        os.open('.', os.O_TMPFILE | os.O_RDONLY, 0o600)


@case
def shared_mapping(d):
    """Stores are seen by read and by other mappings, and writes by mappings."""
    size = 300000
    put('f', bytes(size))
    fd = opened('f')
    a = mmap.mmap(fd, size)
    b = mmap.mmap(fd, size)
    a[131070:131076] = b'across'
    equal(b[131070:131076], b'across', 'other mapping')
    equal(os.pread(fd, 6, 131070), b'across', 'read')
    os.pwrite(fd, b'written', 200000)
    equal(a[200000:200007], b'written', 'mapping after write')
    a.flush()
    os.fsync(fd)
    a.close()
    b.close()
    os.close(fd)
    forget_cache('f')
    want = bytearray(size)
    want[131070:131076] = b'across'
    want[200000:200007] = b'written'
    equal(get('f'), bytes(want), 'later')

    def other():
        f = opened('f')
        m = mmap.mmap(f, size)
        m[0:5] = b'child'
    child(other)
    equal(get('f')[:5], b'child', 'stores of a process that is gone')


@case
def mapping_moves_mtime(d):
    put('f', bytes(10000))
    os.utime('f', (1, 1))
    fd = opened('f')
    m = mmap.mmap(fd, 10000)
    m[5] = 7
    m.flush()
    m.close()
    os.close(fd)
    assert os.stat('f').st_mtime > 1000, 'mtime did not move'


@case
def private_mapping_keeps_the_file(d):
    put('f', b'a' * 5000)
    fd = opened('f', os.O_RDONLY)
    m = mmap.mmap(fd, 5000, flags=mmap.MAP_PRIVATE)
    m[0:3] = b'bbb'
    equal(get('f')[:3], b'aaa')


@case
def execute_a_program_from_it(d):
    """Running a program maps its pages; a text being run can't be written to."""
    with open('/bin/true', 'rb') as f:
        put('prog', f.read(), 0o755)
    equal(subprocess.run(['./prog'], check=False).returncode, 0)
    put('script', b'#!/bin/sh\nexit 3\n', 0o755)
    equal(subprocess.run(['./script'], check=False).returncode, 3)
    os.chmod('prog', 0o644)
    with fails(errno.EACCES):
        os.execv('./prog', ['prog'])


@case
def mapping_and_truncate(d):
    """One process reads the mapped tail while another cuts and grows the file: what was cut off is
    never seen again, and nobody hangs."""
    size = 64 * 4096
    put('f', b'x' * size)

    def reader():
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        while True:
            if mine[size - 10] not in (0, ord('x')):
                os._exit(1)

    pid = None
    end = time.monotonic() + 3
    fd = opened('f')
    mine = mmap.mmap(fd, size)
    rounds = 0
    while time.monotonic() < end:
        if pid is None:
            pid = os.fork()
            if pid == 0:
                reader()
        os.pwrite(fd, b'x' * 8192, size - 8192)
        os.ftruncate(fd, size // 2 + rounds % 4096)
        os.ftruncate(fd, size)
        equal(mine[size - 100:size], bytes(100), 'the mapped tail after cutting and growing')
        equal(os.pread(fd, 100, size - 100), bytes(100), 'the tail after cutting and growing')
        rounds += 1
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS, \
                f'the reader ended with {status}'
            pid = None
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert rounds > 20, f'only {rounds} rounds'


@case
def direct_and_synchronous_writes(d):
    """O_SYNC and O_DSYNC write; O_DIRECT works or is refused at open."""
    for flag in (os.O_SYNC, os.O_DSYNC):
        fd = opened('s', os.O_RDWR | os.O_CREAT | flag)
        os.write(fd, b'sync' * 1000)
        os.close(fd)
        equal(get('s'), b'sync' * 1000)
    try:
        fd = opened('d', os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    except OSError as e:
        equal(e.errno, errno.EINVAL, 'errno')
        return
    m = mmap.mmap(-1, 65536)
    m[:] = b'D' * 65536
    equal(os.write(fd, m), 65536)
    os.lseek(fd, 0, os.SEEK_SET)
    back = mmap.mmap(-1, 65536)
    equal(os.readv(fd, [back]), 65536)
    equal(back[:], m[:], 'read back')
    equal(get('d'), b'D' * 65536, 'through the cache')


@case
def copy_file_range_and_sendfile(d):
    blob = rng.randbytes(700001)
    put('a', blob)
    src, dst = opened('a', os.O_RDONLY), opened('b')
    done = 0
    while done < len(blob):
        n = os.copy_file_range(src, dst, len(blob) - done, done, done)
        assert n > 0, f'copied nothing at {done}'
        done += n
    equal(get('b'), blob, 'copy_file_range')
    dst = opened('c')
    done = 0
    while done < len(blob):
        done += os.sendfile(dst, src, done, len(blob) - done)
    equal(get('c'), blob, 'sendfile')
    with fails(errno.EBADF):
        os.copy_file_range(src, opened('c', os.O_RDONLY), 10)
    os.truncate('b', 400000)
    src2, dst2 = opened('b'), opened('b')
    with fails(errno.EINVAL):
        os.copy_file_range(src2, dst2, 1000, 0, 500)


@case
def copied_ranges_are_independent(d):
    """What is written to either file after a copy stays out of the other, synced or not; holes are
    copied as zeros, over data too; parts of blocks, odd offsets, copies within one file."""
    block = 128 << 10
    for sync in (False, True):
        blob = bytearray(rng.randbytes(5 * block + 777))
        blob[2 * block:3 * block] = bytes(block)
        put('a', bytes(blob))
        a, b = opened('a'), opened('b')
        os.posix_fallocate(a, 0, 1)
        for off, n, to in ((0, len(blob), 0), (block, 2 * block, 6 * block), (100, 3 * block, 50),
                           (block, block + 1, 9 * block), (2 * block, block, 4 * block)):
            copy = bytearray(get('b')) if os.path.exists('b') else bytearray()
            if sync:
                os.fsync(a)
            done = 0
            while done < n:
                done += os.copy_file_range(a, b, n - done, off + done, to + done)
            copy.extend(bytes(max(0, to + n - len(copy))))
            copy[to:to + n] = blob[off:off + n]
            equal(get('b'), bytes(copy), f'{n} bytes from {off} to {to}')
            for fd, content in ((a, blob), (b, copy)):
                at = rng.randrange(len(content) - 10)
                os.pwrite(fd, b'0123456789', at)
                content[at:at + 10] = b'0123456789'
            equal(get('a'), bytes(blob), 'the source')
            equal(get('b'), bytes(copy), 'the copy')
        os.copy_file_range(a, a, block, 0, 5 * block + 777 + block)
        equal(get('a')[-block:], bytes(blob[:block]), 'a copy within the file')
        os.close(a)
        os.close(b)
        os.unlink('b')


@case
def clone_after_truncate(d):
    """Truncate, let it be written, copy a range over, read before it is synced: the copied data."""
    size = 1 << 20
    blob = rng.randbytes(size)
    put('a', blob)

    def work(n):
        src = opened('a', os.O_RDONLY)
        for i in range(6):
            fd = opened(f'b{n}')
            os.write(fd, b'\1' * size)
            os.ftruncate(fd, 0)
            if i % 2:
                os.fsync(fd)
            done = 0
            while done < size:
                done += os.copy_file_range(src, fd, size - done, done, done)
            equal(os.pread(fd, size, 0), blob, 'copied')
            os.close(fd)
    together(8, work)


@case
def read_and_write_flags(d):
    put('f', b'abc')
    r, w = opened('f', os.O_RDONLY), opened('f', os.O_WRONLY)
    with fails(errno.EBADF):
        os.write(r, b'x')
    with fails(errno.EBADF):
        os.read(w, 1)
    equal(os.pread(r, 10, 3), b'', 'read at the end')
    equal(os.pread(r, 10, 1 << 40), b'', 'read past the end')
    equal(os.write(w, b''), 0, 'empty write')
    with fails(errno.EINVAL):
        os.pread(r, 1, -1)
    opened('f', os.O_WRONLY | os.O_TRUNC)
    equal(os.stat('f').st_size, 0, 'size after O_TRUNC')
    with fails(errno.EISDIR):
        os.open('.', os.O_WRONLY)
    dirfd = os.open('.', os.O_RDONLY)
    with fails(errno.EISDIR):
        os.read(dirfd, 10)


@case
def limit_of_the_process(d):
    """RLIMIT_FSIZE: EFBIG past it, and a short write up to it."""
    import resource

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))
        fd = opened('f')
        equal(os.pwrite(fd, b'x' * 5000, 8000), 2000, 'short write')
        with fails(errno.EFBIG):
            os.pwrite(fd, b'x', 10000)
        with fails(errno.EFBIG):
            os.ftruncate(fd, 20000)
    child(limited)


@case
def fsync_everything(d):
    fd = opened('f')
    os.write(fd, b'x' * 100000)
    os.fsync(fd)
    os.fdatasync(fd)
    dirfd = os.open('.', os.O_RDONLY)
    os.fsync(dirfd)
    os.sync()
    call('syncfs', fd)


@case
def big_file_in_odd_pieces(d):
    """8 MiB written in pieces of many sizes, in random order, read back in others."""
    size = 8 << 20
    blob = rng.randbytes(size)
    cuts = sorted({0, size, *(rng.randrange(size) for _ in range(300))})
    pieces = list(zip(cuts, cuts[1:]))
    rng.shuffle(pieces)
    fd = opened('f')
    for i, (a, b) in enumerate(pieces):
        os.pwrite(fd, blob[a:b], a)
        if i % 100 == 50:
            os.fsync(fd)
    os.close(fd)
    equal(get('f'), blob)
    forget_cache('f')
    fd = opened('f', os.O_RDONLY)
    for _ in range(300):
        a = rng.randrange(size)
        n = rng.randrange(1, 400000)
        equal(os.pread(fd, n, a), blob[a:a + n], f'at {a}')


