"""POSIX tests of attributes: modes, owners, permissions, times, extended attributes, ACLs."""
import base64
import errno
import os
import stat
import subprocess
import time

from case import (Skip, as_user, case, child, equal, fails, forget_cache, get, put, rng)


COARSE = 5                # CLOCK_REALTIME_COARSE


def mode(path):
    return oct(stat.S_IMODE(os.lstat(path).st_mode))


def need_root():
    if os.geteuid() != 0:
        raise Skip('needs root')


@case
def modes(d):
    put('f')
    for m in (0, 0o777, 0o4755, 0o2755, 0o1777, 0o7777, 0o644):
        os.chmod('f', m)
        equal(mode('f'), oct(m))
    forget_cache('f')
    equal(mode('f'), oct(0o644), 'later')


@case
def set_id_bits(d):
    """Writing and changing the owner clear them, as the kernel's rules say."""
    need_root()
    os.chmod('.', 0o777)

    def write_clears():
        fd = os.open('f', os.O_WRONLY | os.O_APPEND)
        os.write(fd, b'x')
    for m, after in ((0o6777, 0o777), (0o4711, 0o711), (0o2777, 0o777)):
        put('f')
        os.chmod('f', m | 0o022)
        as_user(write_clears)
        equal(mode('f'), oct(after | 0o022), f'{m:o} after a write')
        os.chmod('f', m | 0o022)
        as_user(lambda: os.truncate('f', 0))
        equal(mode('f'), oct(after | 0o022), f'{m:o} after truncate')
    os.chmod('f', 0o6755)
    os.chown('f', 1000, 1000)
    equal(mode('f'), oct(0o755), 'after chown')
    put('g')
    os.chmod('g', 0o6755)
    with open('g', 'ab') as f:
        f.write(b'root may')
    equal(mode('g'), oct(0o6755), 'after a write by root')

    def write_more():
        fd = os.open('i', os.O_WRONLY)
        os.pwrite(fd, b'x' * 5000, 3)
        os.close(fd)

    def reserve():
        fd = os.open('i', os.O_WRONLY)
        os.posix_fallocate(fd, 0, 50000)
        os.close(fd)

    def no_change_of_owner():       # a FUSE server cannot know that it was this, so it may succeed
        try:
            os.chown('i', -1, -1)
        except PermissionError:
            pass
    put('i')
    for m in (0o4755, 0o2755, 0o2644):
        os.chmod('i', m)
        as_user(no_change_of_owner)
        equal(mode('i'), oct(m), 'after another user has changed no owner')
    os.chmod('i', 0o6755)
    os.chown('i', -1, -1)
    equal(mode('i'), oct(0o755), 'after root has changed no owner')
    for call in (write_more, lambda: os.truncate('i', 5), reserve):
        os.chmod('i', 0o6757)
        as_user(call)
        equal(mode('i'), oct(0o757), 'after a change by another user')
    as_user(lambda: os.chown('i', -1, -1))      # there is nothing to clear any more
    put('h')
    os.chown('h', 1000, 2000)
    as_user(lambda: os.chmod('h', 0o2755))
    equal(mode('h'), oct(0o755), 'set-group-id by one who is not in the group')


@case
def set_group_id_directories(d):
    need_root()
    os.mkdir('d')
    os.chown('d', 0, 5555)
    os.chmod('d', 0o2777)

    def make():
        put('d/f')
        os.mkdir('d/sub')
        os.symlink('x', 'd/l')
    as_user(make)
    for name in ('f', 'sub', 'l'):
        equal(os.lstat(f'd/{name}').st_gid, 5555, f'group of {name}')
    equal(mode('d/sub'), oct(0o2755), 'the directory inherits the bit')
    equal(mode('d/f'), oct(0o644), 'the file does not')


@case
def sticky_directories(d):
    need_root()
    os.mkdir('s')
    os.chmod('s', 0o1777)
    put('s/root')
    put('s/theirs')
    os.chown('s/theirs', 1000, 1000)
    os.mkdir('s/dir')

    def user():
        for call in (lambda: os.unlink('s/root'), lambda: os.rmdir('s/dir'),
                     lambda: os.rename('s/root', 's/x'), lambda: os.rename('s/theirs', 's/root')):
            with fails(errno.EPERM, errno.EACCES):
                call()
        os.rename('s/theirs', 's/mine')
        os.unlink('s/mine')
    as_user(user)


@case
def permissions(d):
    """Who may do what, for owner, group, a further group and others."""
    need_root()
    put('f', b'data')
    os.chown('f', 1000, 2000)
    os.mkdir('d')
    put('d/in')
    os.chown('d', 1000, 2000)

    def can(how):
        return os.access('f', how, effective_ids=True)

    def check(bits):
        equal(can(os.R_OK), bool(bits & 4), 'read')
        equal(can(os.W_OK), bool(bits & 2), 'write')
        for flag, bit in ((os.O_RDONLY, 4), (os.O_WRONLY, 2)):
            if bits & bit:
                os.close(os.open('f', flag))
            else:
                with fails(errno.EACCES):
                    os.open('f', flag)

    def check_dir(bits):
        if bits & 4:
            os.listdir('d')
        else:
            with fails(errno.EACCES):
                os.listdir('d')
        if bits & 1:
            os.stat('d/in')
        else:
            with fails(errno.EACCES):
                os.stat('d/in')
        if bits & 3 == 3:
            put('d/new')
            os.unlink('d/new')
        else:
            with fails(errno.EACCES):
                put('d/new')
            with fails(errno.EACCES):
                os.unlink('d/in')
    for m in (0o640, 0o066, 0o460, 0o604, 0o700, 0o777):
        os.chmod('f', m)
        os.chmod('d', m)
        for uid, gid, groups, shift in ((1000, 99, [], 6), (5, 2000, [], 3), (5, 99, [2000], 3),
                                        (5, 99, [], 0)):
            as_user(check, m >> shift & 7, uid=uid, gid=gid, groups=groups)
            as_user(check_dir, m >> shift & 7, uid=uid, gid=gid, groups=groups)

    def others():
        for call in (lambda: os.chmod('f', 0o777), lambda: os.chown('f', 5, 5),
                     lambda: os.utime('f', (1, 1)), lambda: os.setxattr('f', 'trusted.a', b'')):
            with fails(errno.EPERM):
                call()
    os.chmod('f', 0o666)
    as_user(others, uid=5)
    os.chmod('f', 0o644)

    def now():
        with fails(errno.EACCES):
            os.utime('f')
    as_user(now, uid=5)

    def owner():
        with fails(errno.EPERM):
            os.chown('f', 5, -1)
        with fails(errno.EPERM):
            os.chown('f', -1, 7)
        os.chown('f', -1, 3000)
        os.utime('f', (1, 1))
    as_user(owner, groups=[3000])


@case
def owners(d):
    need_root()
    put('f')
    for u, g in ((0, 0), (1000, 1000), (65534, 65534), (4000000000, 3000000000), (7, 8)):
        os.chown('f', u, g)
        equal((os.stat('f').st_uid, os.stat('f').st_gid), (u, g))
    os.chown('f', -1, 9)
    equal((os.stat('f').st_uid, os.stat('f').st_gid), (7, 9))
    os.symlink('f', 'l')
    os.lchown('l', 5, 6)
    equal((os.lstat('l').st_uid, os.stat('f').st_uid), (5, 7))
    forget_cache('f')
    equal((os.stat('f').st_uid, os.stat('f').st_gid), (7, 9), 'later')


@case
def times_to_the_nanosecond(d):
    put('f')
    for ns in (1, 123456789, 999999999, 1234567890123456789, (1 << 31) * 10**9 + 5,
               (1 << 32) * 10**9 + 7, -1, -10**9, -5 * 10**18 // 10):
        os.utime('f', ns=(ns + 1, ns))
        st = os.stat('f')
        equal((st.st_atime_ns, st.st_mtime_ns), (ns + 1, ns))
        forget_cache('f')
        equal(os.stat('f').st_mtime_ns, ns, 'later')
    os.mkdir('d')
    os.symlink('x', 'l')
    os.mkfifo('p')
    for name in ('d', 'l', 'p'):
        os.utime(name, ns=(5, 77), follow_symlinks=False)
        equal(os.lstat(name).st_mtime_ns, 77, name)


@case
def times_out_of_range(d):
    """What the format can't hold is clamped or refused, never wrapped around."""
    put('f')
    for seconds in (1 << 34, 1 << 40, -(1 << 40)):
        try:
            os.utime('f', (seconds, seconds))
        except (OSError, OverflowError):
            continue
        got = os.stat('f').st_mtime
        assert got == seconds or (got > 0) == (seconds > 0) and abs(got) < abs(seconds), \
            f'{seconds} became {got}'


@case
def operations_move_times(d):
    """mtime and ctime move with what POSIX says moves them, and with nothing else."""
    def moved(path, call):
        """(mtime moved, ctime moved)"""
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
        start = time.clock_gettime_ns(time.CLOCK_REALTIME)
        while time.clock_gettime_ns(COARSE) <= start:       # the coarse clock, which stamps files
            pass
        start = time.clock_gettime_ns(COARSE)
        call()
        st = os.lstat(path)
        return st.st_mtime_ns >= start, st.st_ctime_ns >= start
    put('f', b'x' * 100)
    os.mkdir('d')
    put('d/in')
    fd = os.open('f', os.O_RDWR)
    both, change, none = (True, True), (False, True), (False, False)
    for path, want, what, call in (
            ('f', both, 'write', lambda: os.write(fd, b'y')),
            ('f', both, 'truncate', lambda: os.ftruncate(fd, 50)),
            ('f', change, 'chmod', lambda: os.chmod('f', 0o600)),
            ('f', change, 'link', lambda: os.link('f', 'f2')),
            ('f', change, 'unlink of a link', lambda: os.unlink('f2')),
            ('f', change, 'setxattr', lambda: os.setxattr('f', 'user.a', b'1')),
            ('f', change, 'removexattr', lambda: os.removexattr('f', 'user.a')),
            ('f', none, 'read', lambda: os.pread(fd, 10, 0)),
            ('f', none, 'stat', lambda: os.stat('f')),
            ('d', both, 'create in it', lambda: put('d/new')),
            ('d', both, 'unlink in it', lambda: os.unlink('d/new')),
            ('d', both, 'mkdir in it', lambda: os.mkdir('d/sub')),
            ('d', both, 'rename in it', lambda: os.rename('d/sub', 'd/bus')),
            ('d', none, 'write to a file in it', lambda: put('d/in', b'zz')),
            ('d', none, 'list', lambda: os.listdir('d')),
            ('d', change, 'chmod', lambda: os.chmod('d', 0o700))):
        equal(moved(path, call), want, f'{what}: (mtime, ctime) moved')
    os.utime('f', ns=(5, 5))
    os.rename('f', 'g')
    equal(os.lstat('g').st_mtime_ns, 5, 'mtime after rename')


@case
def utime_now_and_omit(d):
    put('f')
    os.utime('f', ns=(1000, 2000))
    subprocess.run(['touch', '-a', 'f'], check=True)
    st = os.stat('f')
    assert st.st_atime > 10**6 and st.st_mtime_ns == 2000, st
    subprocess.run(['touch', '-m', '-d', '@5.5', 'f'], check=True)
    equal(os.stat('f').st_mtime_ns, 5500000000)


@case
def relative_access_times(d):
    """relatime: a read moves an access time that is older than the last change, and not a newer
    one; O_NOATIME never."""
    flags = os.statvfs('.').f_flag
    if flags & os.ST_NOATIME:
        raise Skip('mounted noatime')
    put('f', b'x' * 5000)
    year = 31 * 10**6

    def after_read(atime, mtime, extra=0):
        os.utime('f', ns=(int(atime * 10**9), int(mtime * 10**9)))
        # The kernel's clock moves in ticks. A read in the tick of the utime would leave an access
        # time equal to ctime, which is not newer, and the next read would move it again.
        changed = os.stat('f').st_ctime_ns
        while time.clock_gettime_ns(COARSE) <= changed:
            pass
        forget_cache('f')
        fd = os.open('f', os.O_RDONLY | extra)
        os.read(fd, 100)
        os.close(fd)
        return os.stat('f').st_atime
    now = time.time()
    assert after_read(now - 3 * year, now - 2 * year) > now - 100, 'older than mtime: must move'
    assert after_read(now - 2 * year, now - 3 * year) > now - 100, 'older than a day: must move'
    recent = now - 1000
    ctime_is_newer = after_read(recent, recent - 100)
    # utime itself moved ctime past atime, so the read moves it by the rule
    assert ctime_is_newer > recent, 'older than ctime: must move'
    fd = os.open('f', os.O_RDONLY)
    first = os.stat('f').st_atime_ns
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(fd, 100, 0)
    if flags & os.ST_RELATIME:
        equal(os.stat('f').st_atime_ns, first, 'a second read within a day')
    assert after_read(now - 3 * year, now - 2 * year, os.O_NOATIME) < now - year, 'O_NOATIME'


@case
def running_a_program_leaves_times(d):
    """Paging a program in does not move mtime or ctime."""
    with open('/bin/true', 'rb') as f:
        put('prog', f.read(), 0o755)
    before = os.stat('prog')
    forget_cache('prog')
    subprocess.run(['./prog'], check=True)
    after = os.stat('prog')
    equal((after.st_mtime_ns, after.st_ctime_ns), (before.st_mtime_ns, before.st_ctime_ns))


# ---- extended attributes

@case
def xattr_values(d):
    put('f')
    os.mkdir('d')
    want = {}
    for n in (0, 1, 100, 1000, 4000, 20000, 65536):
        for path in ('f', 'd'):
            value = rng.randbytes(n)
            os.setxattr(path, 'user.v', value)
            equal(os.getxattr(path, 'user.v'), value, f'{n} bytes')
            want[path] = value
    forget_cache('.')
    for path, value in want.items():
        equal(os.getxattr(path, 'user.v'), value, 'later')
    with fails(errno.E2BIG):
        os.setxattr('f', 'user.big', bytes(65537))
    os.removexattr('f', 'user.v')
    equal(os.listxattr('f'), [], 'list')
    with fails(errno.ENODATA):
        os.getxattr('f', 'user.v')
    with fails(errno.ENODATA):
        os.removexattr('f', 'user.v')
    os.setxattr('f', 'user.v', b'')
    equal(os.getxattr('f', 'user.v'), b'', 'an empty value')
    equal(os.listxattr('f'), ['user.v'], 'an empty value is listed')


@case
def xattr_rules(d):
    put('f')
    os.setxattr('f', 'user.a', b'1', os.XATTR_CREATE)
    with fails(errno.EEXIST):
        os.setxattr('f', 'user.a', b'2', os.XATTR_CREATE)
    with fails(errno.ENODATA):
        os.setxattr('f', 'user.b', b'2', os.XATTR_REPLACE)
    os.setxattr('f', 'user.a', b'3', os.XATTR_REPLACE)
    equal(os.getxattr('f', 'user.a'), b'3')
    with fails(errno.EOPNOTSUPP):
        os.setxattr('f', 'nonsense.a', b'')
    with fails(errno.EOPNOTSUPP, errno.EINVAL):
        os.setxattr('f', 'user.', b'')
    with fails(errno.ERANGE, errno.ENAMETOOLONG):
        os.setxattr('f', 'user.' + 'n' * 251, b'')
    os.setxattr('f', 'user.' + 'n' * 250, b'long')
    equal(os.getxattr('f', 'user.' + 'n' * 250), b'long')
    os.mkfifo('p')
    os.symlink('f', 'l')
    for path in ('p', 'l'):
        with fails(errno.EPERM):
            os.setxattr(path, 'user.a', b'', follow_symlinks=False)
    for i in range(150):
        os.setxattr('f', f'user.many{i}', b'%d' % i * 20)
    equal(len(os.listxattr('f')), 152, 'listed')
    for i in range(0, 150, 3):
        os.removexattr('f', f'user.many{i}')
    forget_cache('f')
    for i in range(150):
        if i % 3:
            equal(os.getxattr('f', f'user.many{i}'), b'%d' % i * 20)
    equal(len(os.listxattr('f')), 102, 'listed after removing')
    if os.geteuid() == 0:
        os.setxattr('f', 'trusted.t', b't')
        os.setxattr('f', 'security.s', b's')
        equal(os.getxattr('f', 'trusted.t'), b't')
        os.chmod('f', 0o666)

        def user():
            assert 'trusted.t' not in os.listxattr('f'), 'trusted attributes are for root'
            with fails(errno.EPERM, errno.ENODATA):
                os.getxattr('f', 'trusted.t')
            equal(os.getxattr('f', 'user.a'), b'3')
        as_user(user)


@case
def xattrs_of_several_kilobytes(d):
    """Four of 5000 to 20000 bytes on one file, all there after the caches are dropped."""
    put('f')
    want = {}
    for i, n in enumerate((5000, 20000, 20000, 6000)):
        want[f'user.{i + 1}'] = base64.b64encode(rng.randbytes(n))[:n]
        os.setxattr('f', f'user.{i + 1}', want[f'user.{i + 1}'])
    for _ in range(2):
        equal(set(os.listxattr('f')), set(want), 'names')
        for name, value in want.items():
            equal(os.getxattr('f', name), value, name)
        forget_cache('f')


@case
def xattr_grows_and_shrinks(d):
    """A small value replaced by one above 32K and back: the newest counts, and there is one."""
    put('f')
    for n in (10, 40000, 20, 60000, 5000, 0, 33000):
        value = rng.randbytes(n)
        os.setxattr('f', 'user.v', value)
        equal(os.getxattr('f', 'user.v'), value, f'{n} bytes')
        forget_cache('f')
        equal(os.getxattr('f', 'user.v'), value, f'{n} bytes, later')
        equal(os.listxattr('f'), ['user.v'])


@case
def xattrs_stay_with_the_file(d):
    """Through rename, link, chmod, growing and shrinking."""
    put('f', b'x')
    os.setxattr('f', 'user.a', b'kept' * 100)
    os.rename('f', 'g')
    os.link('g', 'h')
    os.chmod('g', 0o600)
    with open('g', 'ab') as f:
        f.write(bytes(500000))
    os.truncate('g', 3)
    forget_cache('g')
    equal(os.getxattr('h', 'user.a'), b'kept' * 100)
    put('new')
    os.rename('new', 'h')
    equal(os.listxattr('h'), [], 'the one that took its place')


# ---- ACLs

def acl(*args):
    subprocess.run(['setfacl', *args], check=True, capture_output=True)


def getacl(path):
    out = subprocess.run(['getfacl', '-c', '-E', '-n', '-p', path], check=True,
                         capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if line]


def need_acl():
    need_root()
    put('probe-acl')
    try:
        acl('-m', 'u:1:r', 'probe-acl')
    except FileNotFoundError as e:
        raise Skip('setfacl is not installed') from e
    os.unlink('probe-acl')


@case
def acl_entries(d):
    need_acl()
    put('f')
    acl('-m', 'u:1234:rw,g:77:r', 'f')
    equal(getacl('f'), ['user::rw-', 'user:1234:rw-', 'group::r--', 'group:77:r--', 'mask::rw-',
                        'other::r--'])
    equal(mode('f'), oct(0o664), 'the mask shows as the group bits')
    forget_cache('f')
    equal(len(getacl('f')), 6, 'entries later')
    os.chmod('f', 0o604)
    assert 'mask::---' in getacl('f'), 'chmod of the group bits changes the mask'
    os.chmod('f', 0o674)
    assert 'mask::rwx' in getacl('f')
    equal(mode('f'), oct(0o674))
    acl('-b', 'f')
    equal(getacl('f'), ['user::rw-', 'group::r--', 'other::r--'])
    assert 'system.posix_acl_access' not in os.listxattr('f')
    acl('-m', 'u::rwx,g::r,o::-', 'f')
    equal(mode('f'), oct(0o740), 'an ACL that is a mode')
    with fails(errno.EINVAL):
        os.setxattr('f', 'system.posix_acl_access', b'\2\0\0\0junk')
    with fails(errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL):
        os.setxattr('f', 'system.posix_acl_default', b'\2\0\0\0' + b''.join(
            [b'\1\0\7\0\xff\xff\xff\xff', b'\4\0\5\0\xff\xff\xff\xff', b'\x20\0\5\0\xff\xff\xff\xff']))


@case
def acl_access(d):
    """ACLs decide who may: named users and groups, and the mask limits them."""
    need_acl()
    put('f', b'data')
    os.chmod('f', 0o600)
    acl('-m', 'u:1234:rw,g:77:r', 'f')

    def reads():
        equal(get('f'), b'data')

    def writes():
        os.close(os.open('f', os.O_WRONLY))

    def neither():
        with fails(errno.EACCES):
            os.open('f', os.O_RDONLY)
        with fails(errno.EACCES):
            os.open('f', os.O_WRONLY)
    as_user(reads, uid=1234)
    as_user(writes, uid=1234)
    as_user(reads, uid=5, gid=77)
    as_user(reads, uid=5, gid=1, groups=[77])
    as_user(neither, uid=5)
    acl('-m', 'm::r', 'f')
    as_user(reads, uid=1234)

    def masked():
        with fails(errno.EACCES):
            os.open('f', os.O_WRONLY)
    as_user(masked, uid=1234)
    acl('-m', 'u:5:-', 'f')
    os.chmod('f', 0o666)
    as_user(neither, uid=5)


@case
def acl_defaults(d):
    """A default ACL is what new files get; directories hand it on, files don't have one."""
    need_acl()
    os.mkdir('d')
    acl('-d', '-m', 'u:1234:rwx,g::rx,o::-', 'd')
    put('d/f', b'', 0o666)
    os.mkdir('d/sub', 0o777)
    equal(getacl('d/f'), ['user::rw-', 'user:1234:rwx', 'group::r-x', 'mask::rw-', 'other::---'])
    equal(mode('d/f'), oct(0o660))
    assert [x for x in getacl('d/sub') if x.startswith('default:user:1234')], 'handed on'
    assert not [x for x in getacl('d/f') if x.startswith('default')], 'a file has no default ACL'
    equal(sorted(os.listxattr('d/f')), ['system.posix_acl_access'])
    os.mkfifo('d/p', 0o666)
    assert 'user:1234:rwx' in getacl('d/p')
    os.symlink('f', 'd/l')
    acl('-k', 'd')
    put('d/g', b'', 0o666)
    equal(getacl('d/g'), ['user::rw-', 'group::r--', 'other::r--'])


@case
def acl_and_owner(d):
    """Set a default, remove all, change the owner, and again."""
    need_acl()
    os.mkdir('d')
    acl('-d', '-m', 'u:1234:rwx', 'd')
    acl('-b', 'd')
    os.chown('d', 1000, 1000)
    acl('-b', 'd')
    acl('-d', '-m', 'u:1234:rwx', 'd')
    os.chown('d', 0, 0)
    equal(os.stat('d').st_uid, 0)
    assert [x for x in getacl('d') if x.startswith('default:user:1234')]

    def not_owner():
        r = subprocess.run(['setfacl', '-m', 'u:1:r', 'd'], capture_output=True, check=False)
        assert r.returncode != 0 and b'not permitted' in r.stderr, r
    child(not_owner, uid=5)


@case
def append_only_and_immutable(d):
    """chattr +a and +i, where the file system has them."""
    need_root()
    put('f', b'start')
    if subprocess.run(['chattr', '+a', 'f'], capture_output=True, check=False).returncode:
        raise Skip('no chattr +a here')
    # A mount without open checks lets it be opened and refuses the change (docs/fuse.md).
    checked = os.environ.get('POSIX_CHECKS_OPEN', '1') == '1'

    def overwrite():
        fd = os.open('f', os.O_WRONLY)
        try:
            if not checked:
                os.write(fd, b'x')
        finally:
            os.close(fd)
    try:
        with fails(errno.EPERM):
            overwrite()
        with fails(errno.EPERM):
            os.open('f', os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
        fd = os.open('f', os.O_WRONLY | os.O_APPEND)
        os.write(fd, b'+more')
        equal(get('f'), b'start+more')
        with fails(errno.EPERM):
            os.unlink('f')
    finally:
        subprocess.run(['chattr', '-a', 'f'], check=False)
    subprocess.run(['chattr', '+id', 'f'], check=True)
    try:
        shown = subprocess.run(['lsattr', 'f'], capture_output=True, check=True).stdout.split()[0]
        assert b'i' in shown and b'd' in shown and b'a' not in shown, shown
        for change in (overwrite, lambda: os.unlink('f'), lambda: os.chmod('f', 0o600),
                       lambda: os.link('f', 'g'), lambda: os.rename('f', 'g'),
                       lambda: os.truncate('f', 0), lambda: os.utime('f', (1, 1)),
                       lambda: os.setxattr('f', 'user.x', b'1')):
            with fails(errno.EPERM):
                change()
        equal(get('f'), b'start+more')
    finally:
        subprocess.run(['chattr', '-i', 'f'], check=False)
    os.unlink('f')


@case
def projects(d):
    """Project ids are inherited below a directory that says so, and names stay inside a project."""
    need_root()
    os.mkdir('p')
    os.mkdir('q')
    if subprocess.run(['chattr', '+P', '-p', '1234', 'p'], capture_output=True,
                      check=False).returncode:
        raise Skip('no projects here')
    put('p/f')
    os.mkdir('p/sub')
    put('q/f')
    shown = subprocess.run(['lsattr', '-p', '-R', '.'], capture_output=True, check=True).stdout
    ids = {line.split()[2]: line.split()[0] for line in shown.splitlines()
           if len(line.split()) == 3}
    equal(ids, {b'./p': b'1234', b'./q': b'0', b'./p/f': b'1234', b'./p/sub': b'1234',
                b'./q/f': b'0'}, 'projects')
    with fails(errno.EXDEV):
        os.rename('q/f', 'p/g')
    with fails(errno.EXDEV):
        os.link('q/f', 'p/g')
    os.symlink('f', 'p/link')
    os.rename('p/link', 'p/other')
    os.rename('p/f', 'q/g')
