"""POSIX tests of names: directories, links, special files, renaming, listing."""
import errno
import os
import shutil
import socket
import stat
import threading

from case import (RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, Skip, all_dirents, case, child,
                  dirents, equal, fails, forget_cache, get, put, renameat2, rng)


@case
def many_entries(d):
    """20,000 files in one directory: all listed once, all found, all removable."""
    names = [f'{rng.randrange(1 << 48):012x}{"-long" * rng.randrange(8)}{i}' for i in range(20000)]
    os.mkdir('d')
    for n in names:
        os.close(os.open(f'd/{n}', os.O_CREAT | os.O_WRONLY, 0o644))
    listed = os.listdir('d')
    equal(len(listed), len(names), 'entries')
    equal(set(listed), set(names), 'names')
    for n in rng.sample(names, 2000):
        assert stat.S_ISREG(os.lstat(f'd/{n}').st_mode)
        with fails(errno.ENOENT):
            os.lstat(f'd/{n}x')
    # Another directory, filled in the order in which the first is listed.
    os.mkdir('e')
    for n in listed:
        os.link(f'd/{n}', f'e/{n}')
    equal(set(os.listdir('e')), set(names), 'names of the second')
    for n in rng.sample(names, 10000):
        os.unlink(f'd/{n}')
    equal(len(os.listdir('d')), 10000, 'half of it')
    shutil.rmtree('d')
    shutil.rmtree('e')


@case
def cookies_survive_changes(d):
    """Seeking a directory to a cookie gives what followed it, while others come and go; what stays
    is listed exactly once."""
    os.mkdir('d')
    stay = {b'stay%05d' % i for i in range(1500)}
    for n in stay:
        put(os.path.join(b'd', n), b'')
    for i in range(1500):
        put(f'd/go{i:05d}', b'')
    fd = os.open('d', os.O_RDONLY | os.O_DIRECTORY)
    rows = all_dirents(fd)
    equal(len(rows), 3002, 'entries with . and ..')
    equal(len({r[1] for r in rows}), len(rows), 'different cookies')
    order = [r[3] for r in rows]
    for i in (0, 1, 2, 700, 1499, 2999):
        os.lseek(fd, rows[i][1], os.SEEK_SET)
        equal([r[3] for r in all_dirents(fd)], order[i + 1:], f'after cookie {i}')
    for i in range(0, 1500, 2):
        os.unlink(f'd/go{i:05d}')
        put(f'd/new{i:05d}', b'')
    for i in (2, 700, 1499, 2999):
        os.lseek(fd, rows[i][1], os.SEEK_SET)
        rest = [r[3] for r in all_dirents(fd)]
        equal(len(rest), len(set(rest)), f'listed once, after cookie {i}')
        equal({n for n in rest if n in stay}, {n for n in order[i + 1:] if n in stay},
              f'what stays, after cookie {i}')
    os.lseek(fd, 0, os.SEEK_SET)
    first = dirents(fd)
    equal({r[3] for r in first[:2]}, {b'.', b'..'}, 'the first two')


@case
def listing_while_others_work(d):
    """While a thread makes and removes names, each listing has every lasting name exactly once."""
    os.mkdir('d')
    stay = {f'stay{i}' for i in range(800)}
    for n in stay:
        put(f'd/{n}', b'')
    stop = threading.Event()

    def churn():
        i = 0
        while not stop.is_set():
            put(f'd/churn{i % 50}', b'')
            os.rename(f'd/churn{i % 50}', f'd/moved{i % 70}')
            if i % 3 == 0:
                os.unlink(f'd/moved{i % 70}')
            i += 1
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(40):
            fd = os.open('d', os.O_RDONLY)
            got = [r[3].decode() for r in all_dirents(fd, 2000)]
            os.close(fd)
            lasting = [n for n in got if n in stay]
            equal(len(lasting), len(set(lasting)), 'listed once')
            equal(set(lasting), stay, 'all listed')
    finally:
        stop.set()
        thread.join()


@case
def remove_while_listing(d):
    """The way of rm -r: read some, remove them, go on with the same descriptor."""
    os.mkdir('d')
    for i in range(5000):
        put(f'd/f{i}', b'')
    fd = os.open('d', os.O_RDONLY)
    removed = 0
    while rows := dirents(fd):
        for _, _, _, name in rows:
            if name not in (b'.', b'..'):
                os.unlink(os.path.join(b'd', name))
                removed += 1
    equal(removed, 5000, 'removed in one pass')
    os.rmdir('d')


@case
def inode_numbers(d):
    """Stable, the same in listing and stat, shared by hard links only."""
    put('a')
    os.link('a', 'b')
    os.mkdir('sub')
    put('sub/c')
    os.symlink('a', 'l')
    want = {n: os.lstat(n).st_ino for n in ('a', 'b', 'l', 'sub', 'sub/c')}
    equal(want['a'], want['b'], 'hard links')
    equal(len(set(want.values())), 4, 'different files')
    fd = os.open('.', os.O_RDONLY)
    listed = {r[3].decode(): r for r in all_dirents(fd)}
    for n in ('a', 'b', 'l', 'sub'):
        equal(listed[n][0], want[n], f'inode of {n} in the listing')
    equal(listed['.'][0], os.stat('.').st_ino, 'inode of .')
    equal(listed['..'][0], os.stat('..').st_ino, 'inode of ..')
    equal([listed[n][2] for n in ('a', 'l', 'sub')], [8, 10, 4], 'types in the listing')
    with os.scandir('.') as entries:
        for e in entries:
            equal(e.inode(), e.stat(follow_symlinks=False).st_ino, f'inode of {e.name}')
    os.rename('a', 'sub/a')
    os.chmod('b', 0o600)
    forget_cache('b')
    equal(os.stat('sub/a').st_ino, want['a'], 'after rename')
    equal(os.stat('b').st_ino, want['a'], 'after forgetting')
    sub = os.open('sub', os.O_RDONLY)
    rows = {r[3]: r[0] for r in all_dirents(sub)}
    equal(rows[b'..'], os.stat('.').st_ino, '.. of sub')
    os.rename('sub', 'moved')
    os.mkdir('top')
    os.rename('moved', 'top/moved')
    sub = os.open('top/moved', os.O_RDONLY)
    rows = {r[3]: r[0] for r in all_dirents(sub)}
    equal(rows[b'..'], os.stat('top').st_ino, '.. after moving')


@case
def hard_links(d):
    put('a', b'shared')
    for i in range(300):
        os.link('a', f'l{i}')
    equal(os.stat('a').st_nlink, 301, 'links')
    put('l7', b'changed')
    equal(get('a'), b'changed')
    for i in range(300):
        os.unlink(f'l{i}')
    equal(os.stat('a').st_nlink, 1, 'links')
    os.mkdir('d')
    with fails(errno.EPERM):
        os.link('d', 'd2')
    with fails(errno.EEXIST):
        os.link('a', 'd')
    with fails(errno.ENOENT):
        os.link('none', 'x')
    os.symlink('a', 's')
    os.link('s', 's2', follow_symlinks=False)
    equal(os.readlink('s2'), 'a')
    before = os.stat('a').st_ctime_ns
    os.link('a', 'again')
    assert os.stat('a').st_ctime_ns >= before


@case
def directory_links(d):
    """A directory has 2 links and one for each directory in it."""
    equal(os.stat('.').st_nlink, 2, 'links')
    for i in range(5):
        os.mkdir(f'd{i}')
        put(f'f{i}')
    equal(os.stat('.').st_nlink, 7, 'links')
    os.rename('d0', 'd1/d0')
    equal((os.stat('.').st_nlink, os.stat('d1').st_nlink), (6, 3), 'links after moving')
    os.rmdir('d2')
    os.rename('d3', 'd4')
    equal(os.stat('.').st_nlink, 4, 'links after removing and replacing')


@case
def symlinks(d):
    for n in (1, 17, 59, 60, 100, 143, 144, 145, 255, 1000, 4095):
        os.symlink('t' * n, f'l{n}')
        st = os.lstat(f'l{n}')
        equal((st.st_size, len(os.readlink(f'l{n}'))), (n, n), 'length')
        equal(stat.S_IMODE(st.st_mode), 0o777, 'mode')
    with fails(errno.ENAMETOOLONG):
        os.symlink('t' * 4096, 'toolong')
    with fails(errno.ENOENT):
        os.symlink('', 'empty')
    os.symlink('loop', 'loop')
    with fails(errno.ELOOP):
        os.stat('loop')
    with fails(errno.ELOOP):
        os.open('l1', os.O_RDONLY | os.O_NOFOLLOW)
    put('t', b'target')
    equal(get('l1'), b'target')
    os.unlink('t')
    with fails(errno.ENOENT):
        os.open('l1', os.O_RDONLY)
    put('l1', b'through')
    equal(get('t'), b'through', 'made through a dangling link')
    with fails(errno.EEXIST):
        os.open('l17', os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.mkdir('dir')
    os.symlink('dir', 'tod')
    put('tod/f')
    equal(os.listdir('dir'), ['f'])
    with fails(errno.ENOTDIR):
        os.rmdir('tod')
    with fails(errno.EINVAL):
        os.readlink('dir')


@case
def symlink_with_attributes(d):
    """A target survives attributes set on the link itself."""
    if os.geteuid() != 0:
        raise Skip('trusted attributes need root')
    for length in (17, 64, 120, 200):
        link, target = f'l{length}', 'x' * length
        os.symlink(target, link)
        for i in range(2):
            os.setxattr(link, f'trusted.name-of-{i}-abc', b'twelve bytes', follow_symlinks=False)
        forget_cache('.')
        equal(os.readlink(link), target)
        equal(os.getxattr(link, 'trusted.name-of-1-abc', follow_symlinks=False), b'twelve bytes')


@case
def special_files(d):
    os.mkfifo('fifo', 0o640)
    equal(oct(os.lstat('fifo').st_mode), oct(stat.S_IFIFO | 0o640), 'mode')
    child_done = []

    def writer():
        with open('fifo', 'wb') as f:
            f.write(b'through the fifo')
        child_done.append(1)
    t = threading.Thread(target=writer)
    t.start()
    equal(get('fifo'), b'through the fifo')
    t.join()
    server = socket.socket(socket.AF_UNIX)
    server.bind('sock')
    server.listen(1)
    client = socket.socket(socket.AF_UNIX)
    client.connect('sock')
    client.send(b'hello')
    equal(server.accept()[0].recv(5), b'hello', 'through the socket')
    assert stat.S_ISSOCK(os.lstat('sock').st_mode)
    if os.geteuid() != 0:
        return
    for name, kind, major, minor in (('null', stat.S_IFCHR, 1, 3), ('big', stat.S_IFBLK, 259, 70000),
                                     ('max', stat.S_IFCHR, 4095, (1 << 20) - 1)):
        os.mknod(name, kind | 0o600, os.makedev(major, minor))
        st = os.lstat(name)
        equal((os.major(st.st_rdev), os.minor(st.st_rdev)), (major, minor), name)
        equal(oct(st.st_mode), oct(kind | 0o600), 'mode')
    os.mknod('regular', stat.S_IFREG | 0o600)
    equal(os.lstat('regular').st_size, 0)


@case
def rename_rules(d):
    put('a', b'A')
    put('b', b'B')
    os.rename('a', 'b')
    equal(get('b'), b'A', 'replaced')
    os.mkdir('d')
    os.mkdir('e')
    put('e/f')
    with fails(errno.EISDIR):
        os.rename('b', 'd')
    with fails(errno.ENOTDIR):
        os.rename('d', 'b')
    with fails(errno.ENOTEMPTY, errno.EEXIST):
        os.rename('d', 'e')
    os.rename('e', 'd')
    equal(os.listdir('d'), ['f'], 'replaced an empty directory')
    with fails(errno.EINVAL):
        os.rename('d', 'd/inside')
    os.mkdir('d/x')
    with fails(errno.EINVAL):
        os.rename('d', 'd/x/y')
    with fails(errno.ENOTEMPTY, errno.EEXIST):
        os.rename('d/x', 'd')
    os.link('b', 'c')
    os.rename('b', 'c')
    assert os.path.exists('b') and os.path.exists('c'), 'rename to a link of itself does nothing'
    with fails(errno.ENOENT):
        os.rename('none', 'z')
    with fails(errno.ENOTDIR):
        os.rename('b', 'c/z')
    with fails(errno.EBUSY, errno.EINVAL, errno.ENOTEMPTY):
        os.rename('.', 'z')
    fd = os.open('c', os.O_RDONLY)
    put('n', b'new')
    os.rename('n', 'c')
    equal(os.pread(fd, 5, 0), b'A', 'the replaced file, still open')
    equal(os.fstat(fd).st_nlink, 1, 'links of the replaced file')


@case
def rename_flags(d):
    put('a', b'A')
    put('b', b'B')
    with fails(errno.EEXIST):
        renameat2('a', 'b', RENAME_NOREPLACE)
    renameat2('a', 'c', RENAME_NOREPLACE)
    equal(get('c'), b'A')
    renameat2('b', 'c', RENAME_EXCHANGE)
    equal((get('b'), get('c')), (b'A', b'B'), 'exchanged')
    os.mkdir('d')
    put('d/in')
    os.mkdir('e')
    renameat2('d', 'e', RENAME_EXCHANGE)
    equal((os.listdir('d'), os.listdir('e')), ([], ['in']), 'directories exchanged')
    renameat2('b', 'e', RENAME_EXCHANGE)
    assert os.path.isdir('b') and os.path.isfile('e'), 'a file and a directory exchanged'
    os.mkdir('e2')
    os.mkdir('e2/deep')
    renameat2('e2/deep', 'e', RENAME_EXCHANGE)
    equal((os.stat('.').st_nlink, os.stat('e2').st_nlink), (6, 2), 'links after it')
    with fails(errno.ENOENT):
        renameat2('b', 'none', RENAME_EXCHANGE)
    put('b/x')
    with fails(errno.EINVAL):
        renameat2('b', 'b/x', RENAME_EXCHANGE)
    with fails(errno.EINVAL, errno.ENOTEMPTY):
        renameat2('b/x', 'b', RENAME_EXCHANGE)
    with fails(errno.EINVAL):
        renameat2('c', 'z', RENAME_NOREPLACE | RENAME_EXCHANGE)
    with fails(errno.EINVAL):
        renameat2('c', 'z', 1 << 10)
    if os.geteuid() == 0:
        renameat2('c', 'z', RENAME_WHITEOUT)
        st = os.lstat('c')
        equal((stat.S_IFMT(st.st_mode), st.st_rdev), (stat.S_IFCHR, 0), 'whiteout')
        equal(get('z'), b'B')


@case
def moved_directories(d):
    """A moved directory works at its new place, for those inside it too."""
    os.makedirs('foo/bar/baz')
    os.chdir('foo/bar/baz')
    os.rename('../../bar', '../../../top')
    put('here', b'1')
    equal(os.listdir('..'), ['baz'])
    os.chdir(d)
    equal(get('top/baz/here'), b'1')
    equal(os.listdir('foo'), [])
    put('a', b'old')
    os.rename('a', 'b')
    put('a', b'fresh')
    put('b', b'new')
    equal((get('a'), get('b')), (b'fresh', b'new'))


@case
def odd_names(d):
    names = [b'n' * 255, b'a b', b'tab\t', b'new\nline', b'\xff\xfe', 'ünï'.encode(), '日本'.encode(),
             b'e\xcc\x81', b'\xc3\xa9', b'-', b'...', b' ', b'\\', b'*?[', b'CASE', b'case', b'\x01']
    for n in names:
        put(n, n)
    equal(set(os.listdir(b'.')), set(names), 'names')
    for n in names:
        equal(get(n), n)
    with fails(errno.ENAMETOOLONG):
        put(b'n' * 256)
    with fails(errno.ENAMETOOLONG):
        os.stat(b'n' * 256)
    with fails(errno.ENAMETOOLONG):
        os.stat(b'x/' * 2100)
    with fails(errno.ENOENT):
        os.stat('')


@case
def deep_directories(d):
    for _ in range(300):
        os.mkdir('deep')
        os.chdir('deep')
    put('bottom', b'b')
    for _ in range(300):
        os.chdir('..')
    equal(os.stat('.').st_ino, os.stat(d).st_ino, 'back at the top')
    equal(get('deep/' * 300 + 'bottom'), b'b')


@case
def errors_of_names(d):
    put('f')
    os.mkdir('d')
    put('d/in')
    for call, codes in (
            (lambda: os.mkdir('d'), [errno.EEXIST]),
            (lambda: os.mkdir('f'), [errno.EEXIST]),
            (lambda: os.mkdir('f/x'), [errno.ENOTDIR]),
            (lambda: os.mkdir('none/x'), [errno.ENOENT]),
            (lambda: os.rmdir('d'), [errno.ENOTEMPTY, errno.EEXIST]),
            (lambda: os.rmdir('f'), [errno.ENOTDIR]),
            (lambda: os.rmdir('none'), [errno.ENOENT]),
            (lambda: os.rmdir('d/.'), [errno.EINVAL]),
            (lambda: os.rmdir('d/..'), [errno.ENOTEMPTY]),
            (lambda: os.unlink('d'), [errno.EISDIR]),
            (lambda: os.unlink('none'), [errno.ENOENT]),
            (lambda: os.unlink('f/'), [errno.ENOTDIR]),
            (lambda: os.open('f', os.O_CREAT | os.O_EXCL | os.O_WRONLY), [errno.EEXIST]),
            (lambda: os.open('f', os.O_DIRECTORY), [errno.ENOTDIR]),
            (lambda: os.open('f/', os.O_RDONLY), [errno.ENOTDIR]),
            (lambda: os.open('new/', os.O_CREAT | os.O_WRONLY), [errno.EISDIR]),
            (lambda: os.listdir('f'), [errno.ENOTDIR]),
            (lambda: os.symlink('x', 'f'), [errno.EEXIST]),
            (lambda: os.mkfifo('d'), [errno.EEXIST]),
            (lambda: os.chdir('f'), [errno.ENOTDIR])):
        with fails(*codes):
            call()


@case
def new_files_have_owner_and_times(d):
    """What a maker gets: its own ids, the umask applied, times of now, on every kind."""
    import time
    before = time.time() - 2

    def make():
        os.umask(0o027)
        put('file', b'', 0o666)
        os.mkdir('dir', 0o777)
        os.symlink('x', 'link')
        os.mkfifo('fifo', 0o666)
        for name, mode in (('file', 0o640), ('dir', 0o750), ('fifo', 0o640), ('link', 0o777)):
            st = os.lstat(name)
            equal((st.st_uid, st.st_gid), (os.getuid(), os.getgid()), f'owner of {name}')
            equal(oct(stat.S_IMODE(st.st_mode)), oct(mode), f'mode of {name}')
            for t in (st.st_atime, st.st_mtime, st.st_ctime):
                assert before <= t <= time.time() + 2, f'time of {name}: {t}'
    os.chmod('.', 0o777)
    if os.geteuid() == 0:
        child(make, uid=1234, gid=4321)
    else:
        make()
