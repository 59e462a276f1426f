#!/usr/bin/env python3
"""work.py [NAME...]: real programs at work on a pool; what they leave is compared, taken through
export and import, and judged."""
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import TOP, Failure, Lab, Report, need_root, run, seed, zfs

TESTS = []
MAX_FILES, MAX_BYTES = 40000, 1200 << 20


def work(sizes, *options):
    def register(function):
        TESTS.append((function, sizes, options))
        return function
    return register


def round_trip(pool):
    pool.export()
    pool.import_()


@work(['8G'], '-o', 'ashift=12', '-O', 'compression=lz4', '-O', 'acltype=posix')
def copy_of_usr(pool, lab):
    """Tens of thousands of files of /usr, with cp -a, tar and rsync."""
    lists = []
    files = size = 0
    for top, dirs, names in os.walk('/usr'):
        dirs.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            st = os.lstat(path)
            if st.st_size > 40 << 20 or size + st.st_size > MAX_BYTES or files >= MAX_FILES:
                continue
            files += 1
            size += st.st_size
            lists.append(path[1:])
    listing = lab.path('list')
    with open(listing, 'w') as f:
        f.write('\0'.join(lists))
    right = lab.path('right')
    os.makedirs(right)
    copy = f'tar -C / --null --no-recursion -T "{listing}" -c --xattrs --acls -f - | '
    subprocess.run(f'{copy} tar -x --xattrs --acls -C "{right}"', shell=True, check=True)
    os.makedirs(f'{pool.mnt}/tar')
    subprocess.run(f'{copy} tar -x --xattrs --acls -C "{pool.mnt}/tar"', shell=True, check=True)
    run(['cp', '-a', f'{pool.mnt}/tar', f'{pool.mnt}/cp'], timeout=300)
    want = judge.manifest(right, timeout=300)
    ours = judge.manifest(f'{pool.mnt}/tar', timeout=300)
    # Directories got their times from the unpacking, on both sides.
    dirs = {p for p, e in want.items() if e['mode'].startswith('0o4')}
    for rows in (want, ours):
        for p in dirs & set(rows):
            rows[p]['mtime_ns'] = 0
    judge.compare(ours, want, 'the unpacked copy')
    shutil.rmtree(f'{pool.mnt}/tar')
    round_trip(pool)
    r = run(['rsync', '-aHAXn', '--delete', '--itemize-changes', '--omit-dir-times', f'{right}/',
             f'{pool.mnt}/cp/'], timeout=300)
    if r.out.strip():
        raise Failure(f'rsync sees differences:\n{r}')
    return f'{files} files, {size >> 20} MiB'


@work(['4G'], '-o', 'ashift=12')
def git_and_a_build(pool, lab):
    """A clone of this repository, checked, changed, and built inside the pool."""
    def git(*args, cwd=f'{pool.mnt}/clone'):
        return run(['git', '-c', 'safe.directory=*', '-c', 'user.name=t', '-c', 'user.email=t@t',
                    *args], cwd=cwd, timeout=300).out
    git('clone', '-q', '--no-hardlinks', TOP, f'{pool.mnt}/clone', cwd=pool.mnt)
    git('fsck', '--full')
    git('checkout', '-q', '-b', 'work')
    git('gc', '-q')
    for i in range(20):
        with open(f'{pool.mnt}/clone/file{i}', 'w') as f:
            f.write(f'{i}\n' * 1000)
    git('add', '.')
    git('commit', '-q', '-m', 'more')
    git('reset', '-q', '--hard', 'HEAD~1')
    git('checkout', '-q', 'HEAD@{1}')
    build = f'{pool.mnt}/clone/build'
    os.mkdir(build)
    with open(f'{build}/Makefile', 'w') as f:
        f.write('OBJS := $(patsubst ../%.c,%.o,$(wildcard ../tests/model/*.c ../src/util/*.c))\n'
                'model: $(filter tests/%,$(OBJS)) $(OBJS)\n'
                '\tcc -o $@ $(filter tests/%,$(OBJS))\n'
                + ''.join(f'{top}/%.o: ../{top}/%.c\n'
                          '\t@mkdir -p $(@D)\n'
                          '\tcc -g -O1 -D_GNU_SOURCE -I../src -c -o $@ $<\n'
                          for top in ('tests', 'src')))
    run(['make', '-s', '-j4', '-C', build], timeout=300)
    if run([f'{build}/model'], check=False).status != 2:
        raise Failure('the program built in the pool does not run')
    run(['make', '-s', '-q', '-C', build])      # nothing to do: times are right
    if git('status', '--porcelain').strip():
        raise Failure('git sees changes: ' + git('status', '--porcelain'))
    round_trip(pool)
    git('fsck', '--full')
    if git('status', '--porcelain').strip():
        raise Failure('git sees changes after export and import')


SQL = '''
PRAGMA journal_mode={mode};
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value REAL, data BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
  INSERT INTO t SELECT i, 'name-' || (i * 7919 % 1000003), i / 7.0, printf('%.*c', i % 60, 'x')
  FROM n;
CREATE INDEX by_name ON t(name);
UPDATE t SET value = value + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 11 = 0;
INSERT INTO t(name, value) SELECT name || '-again', value FROM t WHERE id % 17 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(id), total(value), count(DISTINCT name), sum(length(data)) FROM t;
'''


@work(['2G'], '-o', 'ashift=12', '-O', 'recordsize=16K')
def sqlite(pool, lab):
    """300,000 rows, with a rollback journal and with a write-ahead log; the same in memory."""
    def database(path, mode):
        with open(lab.path('sql'), 'w') as f:
            f.write(SQL.format(mode=mode))
        with open(lab.path('sql'), 'rb') as f:
            return run(['sqlite3', path], timeout=300, stdin=f).out
    for mode in ('delete', 'wal'):
        ours = database(f'{pool.mnt}/{mode}.db', mode)
        want = database(lab.path(f'{mode}.db'), mode)
        if ours != want or '\nok\n' not in ours:
            raise Failure(f'{mode}: {ours} should be {want}')
    round_trip(pool)
    for mode in ('delete', 'wal'):
        query = ['PRAGMA integrity_check; SELECT * FROM t ORDER BY id;']
        sums = [hashlib.sha256(run(['sqlite3', db, *query], timeout=300).out.encode()).hexdigest()
                for db in (f'{pool.mnt}/{mode}.db', lab.path(f'{mode}.db'))]
        if sums[0] != sums[1]:
            raise Failure(f'{mode}: the rows differ after export and import')


@work(['2G', '2G'], '-o', 'ashift=12', '-O', 'recordsize=64K')
def fio_verify(pool, lab):
    """Random reads and writes of many sizes, verified while writing and after import."""
    jobs = {'psync': ['--ioengine=psync', '--bsrange=512-256k', '--rw=randrw'],
            'mmap': ['--ioengine=mmap', '--bsrange=4k-64k', '--rw=randwrite'],
            'seq': ['--ioengine=psync', '--bs=1m', '--rw=write', '--fsync=16'],
            'libaio': ['--ioengine=libaio', '--iodepth=16', '--bs=16k', '--rw=randwrite']}
    rounds = []
    for name, args in jobs.items():
        rounds.append(['fio', f'--name={name}', f'--directory={pool.mnt}', '--size=96m',
                       '--numjobs=2', '--verify=crc32c', '--verify_fatal=1', '--randrepeat=1',
                       '--minimal', f'--aux-path={lab.dir}', '--verify_state_save=0', *args])
    for argv in rounds:
        run(argv, timeout=200, cwd=lab.dir)
    round_trip(pool)
    for argv in rounds:
        run([*argv, '--verify_only'], timeout=200, cwd=lab.dir)


@work(['300M'], '-o', 'ashift=12')
def full_pool(pool, lab):
    """Filled to ENOSPC, still readable, still deletable; the space comes back."""
    keep = f'{pool.mnt}/keep'
    judge.tree(keep, 11)
    zfs('create', f'{pool.name}/fill')
    fill = f'{pool.mnt}/fill'
    pool.sync()
    numbers = (pool.get('used', 'fill'), pool.get('referenced', 'fill'))
    allocated = int(pool.get('allocated'))
    before = judge.manifest(keep)
    for turn in range(3):
        os.mkdir(f'{fill}/d')
        written = fill_up(f'{fill}/d')
        if written < 100 << 20:
            raise Failure(f'full after {written} bytes')
        no_space(lambda: os.symlink('x' * 3000, f'{fill}/d/link'), f'{fill}/d/link')
        no_space(lambda: os.mkdir(f'{fill}/d/dir'), f'{fill}/d/dir')
        judge.compare(judge.manifest(keep), before, 'the files from before')
        if turn == 1:
            round_trip(pool)
        if turn == 2:
            with open(f'{fill}/d/f0', 'r+b') as f:      # truncating must work on a full pool
                f.truncate(0)
        shutil.rmtree(f'{fill}/d')
        for _ in range(4):
            pool.sync()
        now = (pool.get('used', 'fill'), pool.get('referenced', 'fill'))
        if now != numbers:
            raise Failure(f'used, referenced of the emptied file system: {now}, were {numbers}')
        grown = int(pool.get('allocated')) - allocated
        if grown > 2 << 20:
            raise Failure(f'turn {turn}: {grown} bytes of the pool did not come back')


def fill_up(folder):
    blob = os.urandom(1 << 20)
    written = i = 0
    while True:
        size = 4000 if i % 7 == 0 else 1 << 20
        try:
            fd = os.open(f'{folder}/f{i}', os.O_CREAT | os.O_WRONLY)
            try:
                done = 0
                while done < size:
                    n = os.write(fd, blob[done:size])
                    done += n
                    written += n
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as e:
            if e.errno != 28:
                raise
            return written
        i += 1


def no_space(call, path):
    """The call may succeed or fail with ENOSPC, but then nothing is left of it."""
    try:
        call()
    except OSError as e:
        if e.errno != 28:
            raise
        if os.path.lexists(path):
            raise Failure(f'ENOSPC, but {path} is there') from e


def one(function, sizes, options):
    with Lab('work') as lab:
        pool = lab.pool('work', sizes, options)
        note = function(pool, lab)
        high = pool.memory_high()
        pool.export()
        judge.verdict(pool)
        return (f'{note}, ' if note else '') + f'at most {high >> 20} MiB of memory'


def main():
    need_root()
    seed()
    report = Report()
    tools = {'sqlite': 'sqlite3', 'fio_verify': 'fio', 'git_and_a_build': 'git',
             'copy_of_usr': 'rsync'}
    for function, sizes, options in TESTS:
        name = function.__name__
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if name in tools and not shutil.which(tools[name]):
            report.skip(name, f'{tools[name]} is not installed')
            continue
        report.check(name, one, function, sizes, options)
    report.finish()


if __name__ == '__main__':
    main()
