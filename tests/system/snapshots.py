#!/usr/bin/env python3
"""snapshots.py [NAME...]: rollback under a live mount, clones, promotion, renames; then both judges."""
import errno
import json
import mmap
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import BIN, Failure, Lab, Report, need_root, run, seed, wait_until, zfs

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def put(path, data):
    with open(path, 'wb') as f:
        f.write(data)


def get(path):
    with open(path, 'rb') as f:
        return f.read()


def equal(got, want, what=''):
    if got != want:
        raise Failure(f'{what}: {got!r}, should be {want!r}')


def fails(code, function, *args):
    try:
        function(*args)
    except OSError as e:
        equal(e.errno, code, 'errno')
        return
    raise Failure(f'{function.__name__}{args} succeeded, should fail with {errno.errorcode[code]}')


@test
def rollback_live(pool):
    """The old tree is there at once, for names, attributes, data and open files."""
    name, top = f'{pool.name}/live', f'{pool.mnt}/live'
    zfs('create', name)
    os.makedirs(f'{top}/d/deep')
    put(f'{top}/same', b'same')
    put(f'{top}/grown', b'short')
    put(f'{top}/d/gone', b'will be removed')
    put(f'{top}/moved', b'moved')
    before = judge.manifest(top)
    zfs('snapshot', f'{name}@a')
    same = os.open(f'{top}/same', os.O_RDONLY)
    grown = os.open(f'{top}/grown', os.O_RDWR)
    os.pwrite(grown, b'x' * 300000, 0)
    mapped = mmap.mmap(grown, 4096)
    os.unlink(f'{top}/d/gone')
    os.rename(f'{top}/moved', f'{top}/d/deep/moved')
    put(f'{top}/new', b'made later')
    new = os.open(f'{top}/new', os.O_RDONLY)
    equal(os.path.exists(f'{top}/d/nothing'), False)
    for i in range(200):
        put(f'{top}/d/more{i}', b'more')
    inode = os.stat(f'{top}/same').st_ino
    os.listdir(f'{top}/d')
    zfs('rollback', f'{name}@a')
    equal(sorted(os.listdir(f'{top}/d')), ['deep', 'gone'], 'names')
    equal(os.path.exists(f'{top}/new'), False, 'new name')
    equal(os.stat(f'{top}/grown').st_size, 5, 'size')
    equal(get(f'{top}/grown'), b'short', 'data')
    equal(os.pread(grown, 100, 0), b'short', 'data through the open file')
    equal(bytes(mapped[:6]), b'short\0', 'mapped data')
    equal(os.pread(same, 10, 0), b'same', 'a file that did not change')
    equal(os.stat(f'{top}/same').st_ino, inode, 'its inode')
    fails(errno.ESTALE, os.fstat, new)
    mapped.close()
    for fd in (same, grown, new):
        os.close(fd)
    judge.compare(judge.manifest(top), before, 'the tree after the rollback')
    put(f'{top}/again', b'it is writable')
    pool.sync()
    zfs('rollback', f'{name}@a')
    equal(os.path.exists(f'{top}/again'), False, 'after the second rollback')


@test
def rollback_twice_with_reused_numbers(pool):
    """A file that got the number of one that the snapshot has is not taken for it."""
    name, top = f'{pool.name}/reuse', f'{pool.mnt}/reuse'
    zfs('create', name)
    for i in range(50):
        put(f'{top}/old{i}', b'old%d' % i)
    zfs('snapshot', f'{name}@a')
    for i in range(50):
        os.unlink(f'{top}/old{i}')
    pool.sync()
    fds = []
    for i in range(200):
        put(f'{top}/new{i}', b'new%d' % i)
        fds.append(os.open(f'{top}/new{i}', os.O_RDWR))
    pool.sync()
    zfs('rollback', f'{name}@a')
    for fd in fds:
        try:
            os.pwrite(fd, b'wrong', 0)
        except OSError as e:
            if e.errno not in (errno.ESTALE, errno.EIO):
                raise
        else:
            raise Failure('a write to a file that is gone succeeded')
        os.close(fd)
    equal(sorted(os.listdir(top)), sorted(f'old{i}' for i in range(50)), 'names')
    for i in range(50):
        equal(get(f'{top}/old{i}'), b'old%d' % i, f'old{i}')


@test
def rollback_under_load(pool):
    """While others write and read: nothing hangs, and the tree is the old one afterwards."""
    name, top = f'{pool.name}/load', f'{pool.mnt}/load'
    zfs('create', name)
    put(f'{top}/f', b'0' * 100000)
    zfs('snapshot', f'{name}@a')
    child = subprocess.Popen(
        ['sh', '-c', 'trap exit TERM; i=0; while :; do i=$((i+1)); cp f g$((i%20)); cat f >/dev/null; ls >/dev/null; '
         'rm -f g$((i%7)); done 2>/dev/null'], cwd=top)
    try:
        for _ in range(10):
            zfs('rollback', f'{name}@a')
            equal(get(f'{top}/f'), b'0' * 100000, 'f')
    finally:
        child.terminate() # the shell obeys when its last command has ended
        child.wait()
    zfs('rollback', f'{name}@a')
    equal(os.listdir(top), ['f'], 'names')


@test
def rollback_above_a_mount(pool):
    """A rollback takes the directory away that a child was mounted on, and the mount with it."""
    name, top = f'{pool.name}/above', f'{pool.mnt}/above'
    zfs('create', name)
    zfs('snapshot', f'{name}@a')
    zfs('create', f'{name}/child')
    put(f'{top}/child/f', b'data')
    zfs('rollback', f'{name}@a')
    zfs('unmount', f'{name}/child')
    zfs('mount', f'{name}/child')
    equal(get(f'{top}/child/f'), b'data')


@test
def rollback_options(pool):
    """-r destroys newer snapshots, -R clones of them; without it says which are in the way."""
    name = f'{pool.name}/opts'
    zfs('create', name)
    for s in 'abc':
        put(f'{pool.mnt}/opts/{s}', s.encode())
        zfs('snapshot', f'{name}@{s}')
    zfs('clone', f'{name}@c', f'{pool.name}/optclone')
    r = zfs('rollback', f'{name}@a', check=False)
    equal(r.err.splitlines(), [
        f"cannot rollback to '{name}@a': more recent snapshots or bookmarks exist",
        "use '-r' to force deletion of the following snapshots and bookmarks:",
        f'{name}@b', f'{name}@c'])
    r = zfs('rollback', '-r', f'{name}@a', check=False)
    equal((r.status, 'clones of previous snapshots exist' in r.err), (1, True), r)
    zfs('rollback', '-R', f'{name}@a')
    equal(os.listdir(f'{pool.mnt}/opts'), ['a'])
    equal(zfs('list', '-H', '-o', 'name', '-t', 'snapshot', '-r', name).out.split(), [f'{name}@a'])
    equal(zfs('list', f'{pool.name}/optclone', check=False).status, 1)


@test
def clone_and_promote(pool):
    """A clone starts as the snapshot; promoted it owns the snapshots, and the origin can go."""
    name, top = f'{pool.name}/orig', f'{pool.mnt}/orig'
    zfs('create', name)
    judge.tree(f'{top}/tree', seed())
    zfs('snapshot', f'{name}@one')
    put(f'{top}/later', os.urandom(200000))
    zfs('snapshot', f'{name}@two')
    zfs('clone', '-o', 'compression=off', f'{name}@one', f'{pool.name}/clone')
    want = judge.manifest(f'{top}/tree')
    judge.compare(judge.manifest(f'{pool.mnt}/clone/tree'), want, 'the clone')
    put(f'{pool.mnt}/clone/own', os.urandom(300000))
    zfs('snapshot', f'{pool.name}/clone@mine')
    zfs('promote', f'{pool.name}/clone')
    rows = zfs('list', '-H', '-t', 'all', '-o', 'name,origin', '-r', pool.name).out.splitlines()
    for row in (f'{name}\t{pool.name}/clone@one', f'{pool.name}/clone\t-', f'{pool.name}/clone@one\t-',
                f'{name}@two\t-', f'{pool.name}/clone@mine\t-'):
        if row not in rows:
            raise Failure(f'{row!r} is missing in {rows}')
    zfs('destroy', '-r', name)
    pool.export()
    pool.import_()
    judge.compare(judge.manifest(f'{pool.mnt}/clone/tree'), want, 'the clone without its origin')


@test
def rename(pool):
    """Mounts move with their file systems; snapshots are renamed in all descendants or in none."""
    zfs('create', '-p', f'{pool.name}/r/a/b')
    zfs('create', f'{pool.name}/r/other')
    put(f'{pool.mnt}/r/a/b/f', b'f')
    zfs('snapshot', '-r', f'{pool.name}/r/a@s')
    zfs('rename', f'{pool.name}/r/a', f'{pool.name}/r/other/c')
    equal(get(f'{pool.mnt}/r/other/c/b/f'), b'f')
    equal(os.path.exists(f'{pool.mnt}/r/a'), False)
    zfs('rename', '-r', f'{pool.name}/r/other/c@s', '@t')
    equal(zfs('list', '-H', '-o', 'name', '-t', 'snapshot', '-r', f'{pool.name}/r').out.split(),
          [f'{pool.name}/r/other/c@t', f'{pool.name}/r/other/c/b@t'])
    zfs('snapshot', f'{pool.name}/r/other/c/b@u')
    r = zfs('rename', '-r', f'{pool.name}/r/other/c@t', f'{pool.name}/r/other/c@u', check=False)
    equal(r.status, 1)
    equal(zfs('list', f'{pool.name}/r/other/c@t').status, 0)
    r = zfs('rename', f'{pool.name}/r/other', f'{pool.name}/r/other/c/x', check=False)
    equal(r.status, 1)
    zfs('rename', '-p', f'{pool.name}/r/other/c', f'{pool.name}/p/q/c')
    equal(get(f'{pool.mnt}/p/q/c/b/f'), b'f')
    zfs('rename', '-u', f'{pool.name}/p', f'{pool.name}/p2')
    equal(zfs('get', '-H', '-o', 'value', 'mounted', f'{pool.name}/p2/q/c').out.strip(), 'yes')


@test
def snapdir(pool):
    """.zfs/snapshot: reachable always, listed if visible; old trees with numbers of their own."""
    name, top = f'{pool.name}/dir', f'{pool.mnt}/dir'
    zfs('create', name)
    judge.tree(f'{top}/tree', seed(), 'tiny')
    want = judge.manifest(top)
    zfs('snapshot', f'{name}@one')
    put(f'{top}/later', b'later')
    os.link(f'{top}/later', f'{top}/link')
    zfs('snapshot', f'{name}@two')
    equal(sorted(os.listdir(top)), ['later', 'link', 'tree'], 'hidden')
    snaps = f'{top}/.zfs/snapshot'
    equal(os.listdir(f'{top}/.zfs'), ['snapshot'])
    equal(os.listdir(snaps), ['one', 'two'])
    judge.compare(judge.manifest(f'{snaps}/one'), want, '@one')
    live, old = os.stat(f'{top}/later'), os.stat(f'{snaps}/two/later')
    equal((live.st_ino, live.st_dev), (old.st_ino & (1 << 48) - 1, old.st_dev), 'numbers')
    if live.st_ino == old.st_ino:
        raise Failure('a file in a snapshot has the number of the live one')
    equal(old.st_ino, os.stat(f'{snaps}/two/link').st_ino, 'links in a snapshot')
    equal([e.inode() for e in os.scandir(f'{snaps}/two') if e.name == 'later'], [old.st_ino], 'd_ino')
    fails(errno.EROFS, put, f'{snaps}/two/new', b'x')
    fails(errno.EROFS, os.unlink, f'{snaps}/two/later')
    fails(errno.EROFS, os.mkdir, f'{snaps}/new')
    fails(errno.EXDEV, os.link, f'{snaps}/two/later', f'{top}/hard')
    fails(errno.ENOENT, os.stat, f'{snaps}/nosuch')
    subprocess.run(['cp', '-a', f'{snaps}/one/tree', f'{top}/copy'], check=True)
    judge.compare(judge.manifest(f'{top}/copy'), judge.manifest(f'{snaps}/one/tree'), 'the copy')
    st = os.statvfs(f'{snaps}/two')
    equal(st.f_bavail, 0, 'room in a snapshot')
    zfs('snapshot', f'{name}@three')
    equal(os.listdir(snaps), ['one', 'two', 'three'], 'a new one')
    zfs('rename', f'{name}@three', f'{name}@drei')
    equal(os.listdir(snaps), ['one', 'two', 'drei'], 'renamed')
    zfs('set', 'snapdir=visible', name)
    equal(sorted(os.listdir(top)), ['.zfs', 'copy', 'later', 'link', 'tree'], 'visible')
    zfs('set', 'snapdir=hidden', name)
    equal(sorted(os.listdir(top)), ['copy', 'later', 'link', 'tree'], 'hidden again')
    zfs('rollback', '-r', f'{name}@two')
    equal(os.listdir(snaps), ['one', 'two'], 'after the rollback')


@test
def snapdir_busy(pool):
    """A snapshot that somebody is in is not destroyed, but with -f; one that was only looked at is."""
    name, snaps = f'{pool.name}/busy', f'{pool.mnt}/busy/.zfs/snapshot'
    zfs('create', name)
    put(f'{pool.mnt}/busy/f', b'data')
    for s in 'abc':
        zfs('snapshot', f'{name}@{s}')
        equal(get(f'{snaps}/{s}/f'), b'data')
    zfs('destroy', f'{name}@a')
    equal(os.listdir(snaps), ['b', 'c'])
    fd = os.open(f'{snaps}/b/f', os.O_RDONLY)
    r = zfs('destroy', f'{name}@b', check=False)
    equal((r.status, r.err), (1, f"cannot destroy '{name}@b': dataset is busy\n"))
    equal(os.pread(fd, 10, 0), b'data')
    zfs('destroy', '-f', f'{name}@b')
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    fails(errno.ESTALE, os.fstat, fd)
    os.close(fd)
    equal(os.listdir(snaps), ['c'])
    fd = os.open(f'{snaps}/c', os.O_RDONLY)
    r = zfs('unmount', name, check=False)
    equal(r.status, 1, 'unmounting while a snapshot is in use')
    os.close(fd)
    zfs('unmount', name)
    zfs('destroy', '-r', name)


@test
def slow_reader_of_diff(pool):
    """Who reads what zfs diff prints line by line keeps no other command waiting, and gets it all."""
    name, top = f'{pool.name}/slow', f'{pool.mnt}/slow'
    zfs('create', name)
    zfs('snapshot', f'{name}@a')
    for i in range(4000):
        put(f'{top}/{i:04}{"n" * 230}', b'')
    zfs('snapshot', f'{name}@b')
    with subprocess.Popen([os.path.join(BIN, 'zfs'), 'diff', f'{name}@a', f'{name}@b'],
                          stdout=subprocess.PIPE) as diff:
        first = diff.stdout.read(1)
        zfs('set', 'a:b=c', name)
        lines = (first + diff.stdout.read()).decode().splitlines()
    equal((diff.returncode, len(lines)), (0, 4001), 'status and lines')
    zfs('destroy', '-r', name)


@test
def reader_of_diff_that_stops(pool):
    """Who asks for a diff and reads nothing keeps nobody waiting; only what is compared stays."""
    name, top = f'{pool.name}/stops', f'{pool.mnt}/stops'
    zfs('create', name)
    zfs('snapshot', f'{name}@a')
    for i in range(4000):
        put(f'{top}/{i:04}{"n" * 230}', b'')
    zfs('snapshot', f'{name}@b')
    zfs('snapshot', f'{name}@c')
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(os.environ['TARN_RUN_DIR']) # the path may be long
        s.connect(f'{pool.name}.sock')
        os.chdir(here)
        s.sendall(json.dumps({'tarn': 1, 'op': 'zfs.diff',
                              'args': {'name': f'{name}@a', 'to': f'{name}@b'}}).encode() + b'\n')
        s.recv(1) # it has begun
        zfs('set', 'a:b=c', name, timeout=20)
        zfs('destroy', f'{name}@c', timeout=20)
        r = zfs('destroy', f'{name}@a', check=False, timeout=20)
        equal((r.status, 'dataset is busy' in r.err), (1, True), 'destroying what is compared')
    wait_until(lambda: zfs('destroy', '-r', name, check=False).status == 0, 'the end of the diff')


def seconds_worked(pool):
    """Processor time of the pool process: unlike the clock's, it means the same on a loaded machine."""
    with open(f'/proc/{pool.pid()}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


@test
def diff_of_a_big_directory(pool):
    """Neighbours share the reading of their directory, however deep it is."""
    name, top = f'{pool.name}/big', f'{pool.mnt}/big/d/e'
    zfs('create', name)
    zfs('snapshot', f'{name}@a')
    os.makedirs(top)
    start = seconds_worked(pool)
    for i in range(8000):
        put(f'{top}/{i}', b'')
    zfs('snapshot', f'{name}@b')
    made = seconds_worked(pool)
    r = zfs('diff', f'{name}@a', f'{name}@b')
    told = seconds_worked(pool) - made
    if told > 2 * (made - start) + 0.5:
        raise Failure(f'{told} s of work to list what {made - start} s had made')
    equal(sorted(r.out.splitlines()), sorted(
        [f'M\t{pool.mnt}/big/', f'+\t{pool.mnt}/big/d', f'+\t{top}'] +
        [f'+\t{top}/{i}' for i in range(8000)]))
    equal(zfs('diff', f'{name}@b').out, '', 'the live state')
    equal(zfs('list', '-H', '-o', 'name', '-t', 'snapshot', name).out.split(),
          [f'{name}@a', f'{name}@b'], 'what was made for it is gone')
    zfs('destroy', '-r', name)


@test
def destroy_looks_first(pool):
    """What cannot be destroyed for a hold is not unmounted first."""
    name, top = f'{pool.name}/first', f'{pool.mnt}/first'
    zfs('create', '-p', f'{name}/below')
    zfs('snapshot', f'{name}/below@a')
    zfs('hold', 'tag', f'{name}/below@a')
    r = zfs('destroy', '-r', name, check=False)
    if r.status != 1 or "it's being held" not in r.err:
        raise Failure(str(r))
    for path in (top, f'{top}/below'):
        if not os.path.ismount(path):
            raise Failure(f'{path} is not mounted any more')
    zfs('release', 'tag', f'{name}/below@a')
    zfs('destroy', '-r', name)


@test
def names_only(pool):
    """The short way to the names of snapshots says the same as the long one."""
    name = f'{pool.name}/names'
    zfs('create', '-p', f'{name}/x/y')
    for snap in ('b', 'a', 'c'):
        zfs('snapshot', '-r', f'{name}@{snap}')
    for options in (['-r'], ['-d', '1'], ['-d', '2'], []):
        long = zfs('list', '-H', '-t', 'snapshot', '-o', 'name,guid', *options, name).out
        want = sorted(line.split('\t')[0] for line in long.splitlines())
        got = zfs('list', '-H', '-t', 'snapshot', '-o', 'name', '-s', 'name', *options, name).out
        equal(got.splitlines(), want, f'{options}')
        got = zfs('list', '-H', '-t', 'snapshot', '-o', 'name', '-S', 'name', *options, name).out
        equal(got.splitlines(), want[::-1], f'{options}')
    zfs('destroy', '-r', name)


def main():
    need_root()
    report = Report()
    with Lab('snapshots') as lab:
        os.environ['TARN_RUN_DIR'] = lab.path('run')
        os.makedirs(lab.path('run'), mode=0o700)
        pool = None

        def made():
            nonlocal pool
            pool = lab.pool('snap', ['1G'], ['-o', 'ashift=12'])
        report.check('create', made)
        for function in TESTS:
            if pool and (not sys.argv[1:] or function.__name__ in sys.argv[1:]):
                report.check(function.__name__, function, pool)
        if pool:
            report.check('export', pool.export)
            report.check('judge', judge.verdict, pool)
    report.finish()


if __name__ == '__main__':
    main()
