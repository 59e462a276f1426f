"""What the tests share: a scratch folder with image files and pools in it, commands with time
limits, and a tidy end whatever happens.

    with Lab('name') as lab:
        pool = lab.pool('t', lab.image('d1', '256M'), options=['-o', 'ashift=12'])
        ... files under pool.mnt ...
        pool.export()

Environment: TARN_BUILD (build folder, default build), TARN_BIN (folder with zpool and zfs, default
TARN_BUILD/bin), TARN_TMP (where scratch folders go, default /var/tmp), TARN_KEEP=1 (leave them),
TARN_SEED (for random tests), TARN_SLOW (a factor for all time limits, for sanitizer builds)."""
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get('TARN_BUILD', 'build'))
BIN = os.environ.get('TARN_BIN', os.path.join(BUILD, 'bin'))
SLOW = float(os.environ.get('TARN_SLOW', '1'))
SKIP_STATUS = 77


class Failure(Exception):
    """A test found something wrong; the text is the report."""


def skip(why):
    """Ends the program as a skipped test; tests/run shows the last line as the reason."""
    print(f'SKIP: {why}', flush=True)
    sys.exit(SKIP_STATUS)


def seed():
    """The seed of this run, printed so that the run can be repeated."""
    value = os.environ.get('TARN_SEED') or str(random.SystemRandom().randrange(1 << 31))
    print(f'seed {value} (repeat with TARN_SEED={value})', flush=True)
    return int(value)


def size_bytes(text):
    """'64M' -> 67108864"""
    m = re.fullmatch(r'(\d+)([KMGT]?)', str(text))
    return int(m[1]) << {'': 0, 'K': 10, 'M': 20, 'G': 30, 'T': 40}[m[2]]


class Result:
    def __init__(self, argv, status, out, err, seconds):
        self.argv, self.status, self.out, self.err = argv, status, out, err
        self.seconds = seconds

    def __str__(self):
        text = f'$ {" ".join(map(str, self.argv))}\n'
        for mark, stream in (('', self.out), ('! ', self.err)):
            lines = stream.splitlines()
            if len(lines) > 60:
                lines = lines[:20] + [f'... {len(lines) - 60} lines ...'] + lines[-40:]
            text += ''.join(f'  {mark}{line}\n' for line in lines)
        return text + f'= {self.status}'


def ends_within(pid, seconds):
    """Waits for a child's end. Popen.wait(timeout) looks 20 times a second only."""
    end = os.pidfd_open(pid)
    try:
        return bool(select.select([end], [], [], seconds)[0])
    finally:
        os.close(end)


def run(argv, timeout=60, check=True, cwd=None, env=None, stdin=None):
    """Runs a command to its end. Standard output and error are captured separately, in files, so
    that a daemon the command leaves behind can't hold a pipe open. A command that exceeds its
    time is killed with its whole group, and is a Failure. With check, so is a status other than
    0."""
    began = time.monotonic()
    environment = dict(os.environ, LC_ALL='C.UTF-8')
    environment.update(env or {})
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with open(os.devnull, 'rb') if stdin is None else stdin as source:
            child = subprocess.Popen([str(a) for a in argv], stdin=source, stdout=out, stderr=err,
                                     cwd=cwd, env=environment, start_new_session=True)
            late = not ends_within(child.pid, timeout * SLOW)
            if late:
                os.killpg(child.pid, signal.SIGKILL)
            status = child.wait()
        out.seek(0)
        err.seek(0)
        result = Result(argv, status, out.read().decode('utf8', 'replace'),
                        err.read().decode('utf8', 'replace'), time.monotonic() - began)
    if late:
        raise Failure(f'no end within {timeout * SLOW:.0f} s:\n{result}')
    if status < 0:
        raise Failure(f'died of signal {-status}:\n{result}')
    if check and status != 0:
        raise Failure(f'failed:\n{result}')
    return result


def wait_until(condition, what, timeout=30):
    """For what no event announces: asks often, gives up loudly."""
    end = time.monotonic() + timeout * SLOW
    while not condition():
        if time.monotonic() > end:
            raise Failure(f'waited {timeout * SLOW:.0f} s for {what}')
        time.sleep(0.01)


def wait_gone(pid, timeout=30):
    """Waits until process pid, not a child of ours, is gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(timeout * SLOW * 1000):
            raise Failure(f'process {pid} is still there after {timeout * SLOW:.0f} s')
    finally:
        os.close(fd)


def mounts():
    """The mount points of this machine, newest last."""
    with open('/proc/self/mounts') as f:
        return [re.sub(r'\\(\d{3})', lambda m: chr(int(m[1], 8)), line.split()[1]) for line in f]


def unmount_below(folder):
    for point in reversed(mounts()):
        if point == folder or point.startswith(folder + '/'):
            tool = ['umount', '-l'] if os.geteuid() == 0 else ['fusermount3', '-u', '-z']
            subprocess.run(tool + [point], stderr=subprocess.DEVNULL, check=False)


def zpool(*args, **kw):
    return run([os.path.join(BIN, 'zpool'), *args], **kw)


def zfs(*args, **kw):
    return run([os.path.join(BIN, 'zfs'), *args], **kw)


def need_program():
    if not os.access(os.path.join(BIN, 'zpool'), os.X_OK):
        raise Failure(f'{BIN}/zpool is not there: run make first')


def need_root():
    if os.geteuid() != 0:
        skip('needs root')


def need_tools(*names):
    for name in names:
        if not shutil.which(name):
            skip(f'{name} is not installed (tools/install-deps test)')


class Pool:
    """One pool, from create to export, in folder `home`; mounted at `mnt` when imported."""

    def __init__(self, lab, name, home, vdevs):
        self.lab, self.name, self.home, self.vdevs = lab, name, home, vdevs
        self.mnt = os.path.join(home, 'mnt')
        self.last_pid = None

    def create(self, options=(), layout=''):
        """layout: 'mirror:2 mirror:2' groups the vdevs in order; without one each is for itself."""
        left, words = list(self.vdevs), []
        for group in layout.split():
            word, n = group.split(':')
            words += [word, *left[:int(n)]]
            del left[:int(n)]
        zpool('create', '-m', self.mnt, *options, self.name, *words, *left)
        self.pid()
        return self

    def import_(self, *options, check=True, timeout=120):
        r = zpool('import', '-d', self.home, *options, self.name, check=check, timeout=timeout)
        if r.status == 0:
            self.pid()
        return r

    def export(self, *options):
        """Exports; the pool process must be gone afterwards."""
        pid = self.pid()
        r = zpool('export', *options, self.name, timeout=180)
        wait_gone(pid)
        self.last_pid = None
        return r

    def sync(self):
        zpool('sync', self.name, timeout=300)

    def get(self, prop, dataset=None):
        """A pool property, or with dataset ('' for the root one) a dataset property, exact."""
        if dataset is None:
            return zpool('get', '-Hp', '-o', 'value', prop, self.name).out.strip()
        name = f'{self.name}/{dataset}'.rstrip('/')
        return zfs('get', '-Hp', '-o', 'value', prop, name).out.strip()

    def pid(self):
        text = zpool('get', '-H', '-o', 'value', 'tarn:pid', self.name).out.strip()
        if not text.isdigit():
            raise Failure(f'tarn:pid of {self.name} is {text!r}')
        self.last_pid = int(text)
        return self.last_pid

    def kill(self):
        """SIGKILL to the pool process, and the dead mounts taken away."""
        pid = self.last_pid or self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)
        self.last_pid = None
        unmount_below(self.mnt)

    def memory_high(self):
        """The largest resident size of the pool process so far, in bytes."""
        with open(f'/proc/{self.pid()}/status') as f:
            return int(re.search(r'VmHWM:\s+(\d+)', f.read())[1]) << 10


class Lab:
    def __init__(self, name):
        # The runner's way to end a test that takes too long: let the clean-up below happen.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        base = os.environ.get('TARN_TMP', '/var/tmp')
        self.dir = tempfile.mkdtemp(prefix=f'tarn-{name}-', dir=base)
        self.pools = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        for pool in self.pools:
            try:
                pid = pool.pid()
            except (Failure, OSError):
                pid = pool.last_pid         # gone, or not answering, or there is no program to ask
            if pid and os.path.exists(f'/proc/{pid}'):
                try:
                    zpool('export', '-f', pool.name, check=False, timeout=60)
                    wait_gone(pid, 10)
                except (Failure, OSError):
                    self._end(pid)
        unmount_below(self.dir)
        if os.environ.get('TARN_KEEP'):
            print(f'kept: {self.dir}')
        else:
            # Never into a mount that would not go away.
            subprocess.run(['rm', '-rf', '--one-file-system', self.dir], check=False)

    @staticmethod
    def _end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
            wait_gone(pid, 10)
        except (ProcessLookupError, Failure):
            pass

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def image(self, name, size, folder=''):
        """A sparse image file; returns its path."""
        path = self.path(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as f:
            f.truncate(size_bytes(size))
        return path

    def pool(self, name, sizes=('256M',), options=(), create=True):
        """A pool on image files of the given sizes in a folder of its own. The name is made unique
        on this machine."""
        need_program()
        name = f'{name}{os.getpid()}x{len(self.pools)}'
        home = self.path(name)
        vdevs = [self.image(f'disk{i}.img', s, name) for i, s in enumerate(sizes, 1)]
        pool = Pool(self, name, home, vdevs)
        self.pools.append(pool)
        return pool.create(options) if create else pool


class Report:
    """Lines 'ok - X', 'not ok - X', 'skip - X: why' that tests/run counts one by one."""

    def __init__(self):
        self.failed = 0

    def ok(self, name, note=''):
        print(f'ok - {name}' + (f' ({note})' if note else ''), flush=True)

    def fail(self, name, why):
        self.failed += 1
        print(f'not ok - {name}', flush=True)
        for line in str(why).splitlines():
            print(f'    {line}', flush=True)

    def skip(self, name, why):
        print(f'skip - {name}: {why}', flush=True)

    def check(self, name, function, *args):
        """Runs one test function; its Failure, OSError or AssertionError is the report."""
        began = time.monotonic()
        try:
            note = function(*args)
        except (Failure, OSError, AssertionError, subprocess.SubprocessError) as e:
            self.fail(name, f'{type(e).__name__}: {e}')
            return False
        except Exception:
            self.fail(name, traceback.format_exc(limit=-4))
            return False
        took = f'{time.monotonic() - began:.1f} s'
        self.ok(name, f'{note}, {took}' if note else took)
        return True

    def finish(self):
        sys.exit(1 if self.failed else 0)


class LoopFs:
    """A file system of the kernel on a loop file, for comparison, mounted below the lab."""

    def __init__(self, lab, kind='ext4', size='4G'):
        need_root()
        self.mnt = lab.path(f'{kind}-mnt')
        os.makedirs(self.mnt)
        if kind == 'tmpfs':
            run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', self.mnt])
            return
        self.image = lab.image(f'{kind}.img', size)
        make = {'ext4': ['mkfs.ext4', '-q', '-F', '-O', 'ea_inode'], 'xfs': ['mkfs.xfs', '-q', '-f']}
        run([*make[kind], self.image])
        run(['mount', '-o', 'loop', self.image, self.mnt])


def reference_side(lab):
    """A file system known to be right, with user xattrs: a tmpfs where the kernel's has them (6.6),
    ext4 on a loop file otherwise."""
    side = LoopFs(lab, 'tmpfs')
    probe = os.path.join(side.mnt, 'probe')
    with open(probe, 'wb'):
        pass
    try:
        os.setxattr(probe, 'user.probe', b'x')
        return side.mnt
    except OSError:
        return LoopFs(lab, 'ext4').mnt
    finally:
        os.unlink(probe)
