#!/usr/bin/env python3
"""kill9.py [ROUNDS]: SIGKILL of the pool process at random moments while programs write. A ledger
outside the pool holds what fsync had promised; after each kill the images must be free of leaks as
they are, the import must succeed, and every promise must have been kept."""
import errno
import hashlib
import os
import random
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import SLOW, Failure, Lab, Report, need_root, run, seed, wait_until, zfs

WORKERS = 3
STALLED = 120             # seconds without a word from any writer
RECORD = 64
KINDS = [
    (['512M'], ['-o', 'ashift=12']),
    (['512M', '256M'], ['-o', 'ashift=9', '-O', 'compression=lz4']),
    (['1G'], ['-o', 'ashift=12', '-O', 'recordsize=16K', '-O', 'xattr=dir']),
]


def blob_of(tag, size):
    """Content that its tag tells: a promise is a tag and a size."""
    unit = hashlib.sha256(tag.encode()).digest()
    return (unit * (size // 32 + 1))[:size]


def record_of(name, i):
    return f'{name} {i} '.encode().ljust(RECORD - 1, b'.') + b'\n'


# ---- the writers

class Writer:
    """Works below its own folder; says on a pipe what has become a promise. A promise that is
    about to be replaced is announced first ('maybe'), so that both states are right after a kill.

      file NAME TAG SIZE    the content is on disk
      maybe NAME TAG SIZE   from now on it may also be this
      gone NAME             removed, and the directory synced
      log NAME COUNT        so many records were appended and synced
      grown NAME SIZE       fallocated to this size and synced"""

    def __init__(self, folder, number, turn, pipe, value):
        self.top, self.number, self.pipe = os.path.join(folder, f'w{number}'), number, pipe
        self.rng = random.Random(f'{value} {turn} {number}')
        self.turn, self.count = turn, 0
        self.names = []

    def say(self, *words):
        os.write(self.pipe, (' '.join(map(str, words)) + '\n').encode())

    def path(self, name):
        return os.path.join(self.top, name)

    def sync_dir(self, sub=''):
        fd = os.open(self.path(sub), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def new_name(self):
        self.count += 1
        return f'd{self.rng.randrange(4)}/f{self.turn}-{self.count}'

    def write(self, name, tag, size, flags=os.O_CREAT | os.O_EXCL):
        fd = os.open(self.path(name), os.O_WRONLY | flags, 0o644)
        os.write(fd, blob_of(tag, size))
        os.fsync(fd)
        os.close(fd)

    def size(self):
        return self.rng.choice([1, 100, 5000, 60000, 200000, 900000])

    def create(self):
        name, size = self.new_name(), self.size()
        self.write(name, name, size)
        self.say('file', name, name, size)
        self.names.append(name)

    def replace(self):
        """The careful way: write aside, sync, rename over, sync the directory."""
        name, size = self.rng.choice(self.names), self.size()
        self.count += 1
        tag = f'{name}v{self.turn}-{self.count}'
        self.say('maybe', name, tag, size)
        self.write(name + '.new', tag, size, os.O_CREAT | os.O_TRUNC)
        os.rename(self.path(name + '.new'), self.path(name))
        self.sync_dir(os.path.dirname(name))
        self.say('file', name, tag, size)

    def remove(self):
        name = self.names.pop(self.rng.randrange(len(self.names)))
        self.say('maybe', name, '-', 0)
        os.unlink(self.path(name))
        self.sync_dir(os.path.dirname(name))
        self.say('gone', name)

    def move(self):
        """Both names may be there after a kill, never none."""
        old, new = self.names.pop(self.rng.randrange(len(self.names))), self.new_name()
        self.say('moving', old, new)
        os.rename(self.path(old), self.path(new))
        self.sync_dir(os.path.dirname(old))
        self.sync_dir(os.path.dirname(new))
        self.say('moved', old, new)
        self.names.append(new)

    def log(self):
        name = f'log{self.turn}'
        fd = os.open(self.path(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        have = os.fstat(fd).st_size // RECORD
        n = self.rng.randrange(1, 40)
        for i in range(n):
            os.write(fd, record_of(name, have + i))
        os.fsync(fd)
        os.close(fd)
        self.say('log', name, have + n)

    def grow(self):
        name = self.new_name()
        size = self.rng.randrange(1000, 3000000)
        fd = os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o644)
        os.posix_fallocate(fd, 0, size)
        os.fsync(fd)
        os.close(fd)
        self.say('grown', name, size)

    def attribute(self):
        name = self.rng.choice(self.names)
        value = f'{self.turn}-{self.count}-' + 'x' * self.rng.choice([3, 300, 5000])
        self.count += 1
        self.say('xattr-maybe', name, value)
        fd = os.open(self.path(name), os.O_RDONLY)
        os.setxattr(fd, 'user.v', value.encode())
        os.fsync(fd)
        os.close(fd)
        self.say('xattr', name, value)

    def careless(self):
        """Not synced, so not promised: must only do no harm."""
        name = f'careless/c{self.rng.randrange(60)}'
        kind = self.rng.randrange(5)
        if kind < 3:
            with open(self.path(name), 'ab') as f:
                f.write(self.rng.randbytes(self.size()))
        elif os.path.exists(self.path(name)):
            if kind == 3:
                os.truncate(self.path(name), self.rng.randrange(100000))
            else:
                os.unlink(self.path(name))

    def orphan(self):
        """A file without a name that is open when the kill comes."""
        fd = os.open(self.path(f'orphan{self.count}'), os.O_RDWR | os.O_CREAT, 0o600)
        os.unlink(self.path(f'orphan{self.count}'))
        os.write(fd, self.rng.randbytes(300000))
        os.fsync(fd)

    def run(self):
        for sub in ('d0', 'd1', 'd2', 'd3', 'careless'):
            os.makedirs(self.path(sub), exist_ok=True)
        self.sync_dir()
        ops = ['create'] * 4 + ['replace'] * 3 + ['log'] * 3 + ['careless'] * 6 + \
              ['remove', 'move', 'grow', 'attribute', 'orphan']
        while True:
            op = self.rng.choice(ops)
            if op in ('replace', 'remove', 'move', 'attribute') and not self.names:
                op = 'create'
            if len(self.names) > 25 and op == 'create':
                op = 'remove'
            if op == 'orphan' and self.rng.random() < 0.7:
                op = 'careless'
            getattr(self, op)()


def start_writer(pool, number, turn, value):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        os.close(reader)
        Writer(pool.mnt, number, turn, writer, value).run()
    except OSError as e:
        # The pool process is gone: that is how the work ends. Anything else is an error.
        # A request that was on an io_uring of the process ends as cancelled.
        gone = e.errno in (errno.EIO, errno.ECONNABORTED, errno.ENOTCONN, errno.EINTR, errno.ENOENT,
                           errno.ECANCELED)
        if not gone:
            os.write(writer, f'error {e}\n'.encode())
        os._exit(0 if gone else 1)
    except BaseException as e:
        os.write(writer, f'error {e!r}\n'.encode())
    os._exit(1)


# ---- the ledger

class Ledger:
    """What one writer's folder may look like."""

    def __init__(self):
        self.files = {}         # name: [allowed (tag, size)]; ('-', 0) is "not there"
        self.logs, self.grown, self.xattrs, self.moving = {}, {}, {}, []

    def note(self, line):
        words = line.split(' ')
        kind, name = words[0], words[1]
        if kind == 'file':
            self.files[name] = [(words[2], int(words[3]))]
            if words[2] != name:
                self.xattrs.pop(name, None)         # another file took the name
        elif kind == 'maybe':
            self.files[name].append((words[2], int(words[3])))
            self.xattrs.pop(name, None)
        elif kind == 'gone':
            self.files[name] = [('-', 0)]
        elif kind == 'moving':
            self.moving.append((name, words[2]))
        elif kind == 'moved':
            self.moving.remove((name, words[2]))
            self.files[words[2]] = self.files[name]
            self.files[name] = [('-', 0)]
            if name in self.xattrs:
                self.xattrs[words[2]] = self.xattrs.pop(name)
        elif kind == 'log':
            self.logs[name] = int(words[2])
        elif kind == 'grown':
            self.grown[name] = int(words[2])
        elif kind == 'xattr-maybe':
            self.xattrs.setdefault(name, [None]).append(words[2])
        elif kind == 'xattr':
            self.xattrs[name] = [words[2]]
        else:
            raise Failure(f'writer: {line}')

    def check(self, top):
        bad = []
        moving = {n for pair in self.moving for n in pair}
        for name, allowed in self.files.items():
            if name not in moving:
                self.check_file(top, name, allowed, bad)
        for old, new in self.moving:
            there = [n for n in (old, new) if os.path.exists(os.path.join(top, n))]
            if not there:
                bad.append(f'{old}: lost while it was renamed to {new}')
            for n in there:
                self.check_file(top, n, self.files[old], bad)
        for name, count in self.logs.items():
            self.check_log(top, name, count, bad)
        for name, size in self.grown.items():
            try:
                st = os.stat(os.path.join(top, name))
                if st.st_size != size or time.time() - st.st_mtime > 10000:
                    bad.append(f'{name}: size {st.st_size}, should be {size}')
            except FileNotFoundError:
                bad.append(f'{name}: lost')
        for name, values in self.xattrs.items():
            if name in moving:
                continue
            try:
                got = os.getxattr(os.path.join(top, name), 'user.v').decode()
            except OSError:
                got = None
            if got not in values and os.path.exists(os.path.join(top, name)):
                bad.append(f'{name}: attribute is {str(got)[:30]}, should be '
                           f'{[str(v)[:30] for v in values]}')
        return bad

    @staticmethod
    def check_file(top, name, allowed, bad):
        try:
            with open(os.path.join(top, name), 'rb') as f:
                data = f.read()
        except FileNotFoundError:
            if ('-', 0) not in allowed:
                bad.append(f'{name}: lost')
            return
        for tag, size in allowed:
            if tag != '-' and data == blob_of(tag, size):
                return
        bad.append(f'{name}: {len(data)} bytes {data[:8].hex()}, allowed {allowed}')

    @staticmethod
    def check_log(top, name, count, bad):
        try:
            with open(os.path.join(top, name), 'rb') as f:
                data = f.read()
        except FileNotFoundError:
            bad.append(f'{name}: lost')
            return
        want = b''.join(record_of(name, i) for i in range(count))
        if data[:len(want)] != want:
            bad.append(f'{name}: the first {count} records are not what was synced')

    def settle(self, top):
        """What is there now is what the next round starts from."""
        for old, new in self.moving:
            allowed = self.files[old]
            for n in (old, new):
                self.files[n] = allowed if os.path.exists(os.path.join(top, n)) else [('-', 0)]
        for name in [n for n, allowed in self.files.items() if len(allowed) > 1]:
            if not os.path.exists(os.path.join(top, name)):
                self.files[name] = [('-', 0)]
            else:
                self.files[name] = [x for x in self.files[name] if x[0] != '-']
        self.moving = []


def one_round(pool, ledgers, turn, rng, value):
    writers = [start_writer(pool, i, turn, value) for i in range(WORKERS)]
    # Kill after so many promises, and then a moment more.
    target, told, buffers = rng.randrange(3, 60), 0, [b''] * WORKERS
    pipes = {reader: i for i, (_, reader) in enumerate(writers)}
    killed = False
    try:
        while pipes:
            ready, _, _ = select.select(list(pipes), [], [], STALLED * SLOW)
            if not ready:
                raise Failure(f'round {turn}: the writers are stuck ({told} promises)')
            for reader in ready:
                chunk = os.read(reader, 65536)
                i = pipes[reader]
                if not chunk:
                    del pipes[reader]
                    continue
                *lines, buffers[i] = (buffers[i] + chunk).split(b'\n')
                for line in lines:
                    ledgers[i].note(line.decode())
                    told += 1
            if told >= target and not killed:
                moment = time.monotonic() + rng.random() ** 3 * 0.2
                while time.monotonic() < moment:
                    pass
                pool.kill()
                killed = True
    finally:
        for pid, reader in writers:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
            os.waitpid(pid, 0)
            os.close(reader)
    if not killed:
        raise Failure(f'round {turn}: the writers ended by themselves')
    return told


def look(pool, ledgers, turn):
    bad = []
    for i, ledger in enumerate(ledgers):
        top = os.path.join(pool.mnt, f'w{i}')
        bad += [f'w{i}/{b}' for b in ledger.check(top)]
    if bad:
        raise Failure(f'round {turn}: {len(bad)} promises broken\n' + '\n'.join(bad[:20]))
    for i, ledger in enumerate(ledgers):
        ledger.settle(os.path.join(pool.mnt, f'w{i}'))


def many_rounds(lab, rounds, sizes, options, rng, value):
    pool = lab.pool('kill', sizes, options)
    ledgers = [Ledger() for _ in range(WORKERS)]
    promises = 0
    for turn in range(rounds):
        promises += one_round(pool, ledgers, turn, rng, value)
        judge.recheck(pool.vdevs)
        if turn % 10 == 9 and judge.ready():
            judge.zdb(pool.home, pool.name)
        pool.import_()
        look(pool, ledgers, turn)
        if turn % 20 == 19:         # make room, and let another tree grow
            run(['rm', '-rf', pool.mnt + '/w0', pool.mnt + '/w1', pool.mnt + '/w2'])
            pool.sync()
            ledgers = [Ledger() for _ in range(WORKERS)]
    wait_until(lambda: pool.get('freeing') in ('0', '-'), 'freeing to end')
    pool.export()
    judge.verdict(pool)
    return f'{rounds} kills, {promises} promises kept'


def rename_story(lab):
    """mkdir A; A/bar synced; B/bar renamed over A/bar; A/foo and A synced; kill: A/bar is there."""
    pool = lab.pool('story', ['256M'])
    m = pool.mnt

    def touch(path, content, sync):
        fd = os.open(f'{m}/{path}', os.O_CREAT | os.O_WRONLY)
        os.write(fd, content)
        if sync:
            os.fsync(fd)
        os.close(fd)
    os.mkdir(f'{m}/A')
    touch('A/bar', b'old', True)
    os.mkdir(f'{m}/B')
    touch('B/bar', b'new', False)
    os.rename(f'{m}/B/bar', f'{m}/A/bar')
    touch('A/foo', b'', True)
    fd = os.open(f'{m}/A', os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    pool.kill()
    pool.import_()
    with open(f'{m}/A/bar', 'rb') as f:
        content = f.read()
    if content not in (b'old', b'new') or not os.path.exists(f'{m}/A/foo'):
        raise Failure(f'A/bar is {content}')
    pool.export()
    judge.verdict(pool)


def orphans_go(lab):
    """Files that were unlinked but open at the kill: their space is free after the import."""
    pool = lab.pool('orphan', ['256M'])
    zfs('create', f'{pool.name}/fs')
    pool.sync()
    before = pool.get('referenced', 'fs')
    files = []
    for i in range(20):
        fd = os.open(f'{pool.mnt}/fs/f{i}', os.O_CREAT | os.O_RDWR)
        os.write(fd, os.urandom(1 << 20))
        os.fsync(fd)
        os.unlink(f'{pool.mnt}/fs/f{i}')
        files.append(fd)
    pool.sync()
    pool.kill()
    for fd in files:
        try:
            os.close(fd)
        except OSError:
            pass
    pool.import_()
    pool.sync()
    wait_until(lambda: pool.sync() or pool.get('referenced', 'fs') == before,
               f'the space of the orphans (referenced {before} again)')
    pool.export()
    judge.verdict(pool)


def kill_while_idle_and_importing(lab):
    """A kill right after create, after import, and after zpool sync loses nothing."""
    pool = lab.pool('idle', ['256M'])
    pool.kill()
    pool.import_()
    with open(f'{pool.mnt}/f', 'wb') as f:
        f.write(b'x' * 100000)
    pool.sync()
    pool.kill()
    judge.recheck(pool.vdevs)
    for _ in range(5):
        pool.import_()
        with open(f'{pool.mnt}/f', 'rb') as f:
            if f.read() != b'x' * 100000:
                raise Failure('what zpool sync had promised is not there')
        pool.kill()
    pool.import_()
    pool.export()
    judge.verdict(pool)


def main():
    need_root()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    value = seed()
    rng = random.Random(value)
    report = Report()
    for function in (rename_story, orphans_go, kill_while_idle_and_importing):
        with Lab('kill') as lab:
            report.check(function.__name__, function, lab)
    for i, (sizes, options) in enumerate(KINDS):
        share = rounds // len(KINDS) + (i < rounds % len(KINDS))
        with Lab('kill') as lab:
            report.check(' '.join([*sizes, *options]), many_rounds, lab, share, sizes, options, rng,
                         value)
    report.finish()


if __name__ == '__main__':
    main()
