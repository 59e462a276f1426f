#!/usr/bin/env python3
"""snapshots.py [--build DIR] [FILES...]: how long operations on datasets take by the number of files (default 1000
and 100000): on this program, on btrfs on a loop file and on Debian's zfs-fuse, in one run. Each is durable when
the clock stops. Then, for this program, 1,000 snapshots in one recursive call and listing 10,000 of them.
Seconds; behind them how many times as long as this program took."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from bench import ZfsFuse  # takes --build too
from lab import Failure, Lab, need_program, need_root, run, unmount_below, wait_until, zfs

SNAPSHOTS = 10000
DATASETS = 1000
ROWS = ['snapshot', 'clone', 'rollback', 'destroy the clone', 'destroy a snapshot that holds 1 file',
        'destroy a snapshot that holds all']


class Zfs:
    """This program's zfs or another one's."""

    def __init__(self, name, pool, mnt, zfs_command, flush):
        self.name, self.pool, self.mnt, self.zfs, self.flush = name, pool, mnt, zfs_command, flush

    def place(self, n):
        self.set = f'{self.pool}/n{n}'
        self.zfs('create', self.set)
        return f'{self.mnt}/n{n}'

    def snapshot(self, name):
        self.zfs('snapshot', f'{self.set}@{name}')

    def clone(self):
        self.zfs('clone', f'{self.set}@a', f'{self.set}-clone')

    def drop_clone(self):
        self.zfs('destroy', f'{self.set}-clone')

    def rollback(self):
        self.zfs('rollback', f'{self.set}@a')

    def drop(self, name):
        self.zfs('destroy', f'{self.set}@{name}')
        self.flush()


class Btrfs:
    name = 'btrfs'

    def __init__(self, lab):
        self.image, self.mnt = lab.image('btrfs.img', '16G'), lab.path('btrfs')
        run(['mkfs.btrfs', '-q', self.image])
        os.mkdir(self.mnt)
        run(['mount', '-o', 'loop', self.image, self.mnt])

    def sub(self, *args):
        run(['btrfs', 'subvolume', *args], timeout=600)
        self.flush()

    def flush(self):
        run(['btrfs', 'filesystem', 'sync', self.mnt], timeout=600)

    def place(self, n):
        self.set = f'{self.mnt}/n{n}'
        self.sub('create', self.set)
        return self.set

    def snapshot(self, name):
        self.sub('snapshot', '-r', self.set, f'{self.set}@{name}')

    def clone(self):
        self.sub('snapshot', f'{self.set}@a', f'{self.set}-clone')

    def drop_clone(self):
        self.sub('delete', f'{self.set}-clone')

    def rollback(self):
        os.rename(self.set, f'{self.set}-old')
        run(['btrfs', 'subvolume', 'snapshot', f'{self.set}@a', self.set])
        self.sub('delete', f'{self.set}-old')

    def drop(self, name):
        self.sub('delete', f'{self.set}@{name}')
        run(['btrfs', 'subvolume', 'sync', self.mnt], timeout=600)


def timed(function, *args):
    start = time.monotonic()
    function(*args)
    return time.monotonic() - start


def fill(folder, files):
    for i in range(files):
        if i % 1000 == 0:
            os.makedirs(f'{folder}/{i // 1000}')
        with open(f'{folder}/{i // 1000}/{i}', 'w') as f:
            f.write('x' * 1000)


def by_files(system, files):
    top = system.place(files)
    fill(top, files)
    system.flush()
    times = [timed(system.snapshot, 'a'), timed(system.clone)]
    with open(f'{top}/later', 'w') as f:
        f.write('y')
    system.flush()
    times += [timed(system.rollback), timed(system.drop_clone)]
    with open(f'{top}/later', 'w') as f:
        f.write('y')
    system.flush()
    system.snapshot('b')
    os.unlink(f'{top}/later')
    system.flush()
    times.append(timed(system.drop, 'b'))
    run(['rm', '-rf', *[f'{top}/{e}' for e in os.listdir(top)]], timeout=600)
    system.flush()
    return times + [timed(system.drop, 'a')]


def compare(systems, files):
    table = {s.name: by_files(s, files) for s in systems}
    for i, row in enumerate(ROWS):
        ours = table[systems[0].name][i]
        cells = [f'{s.name} {table[s.name][i]:7.3f} ({table[s.name][i] / ours:5.2f})' for s in systems]
        print(f'{f"{files} files: {row}":54} {"  ".join(cells)}', flush=True)


def many(pool):
    top = f'{pool.name}/many'
    zfs('create', '-o', 'mountpoint=none', top)
    for i in range(DATASETS):
        zfs('create', f'{top}/d{i}')

    def row(what, *argv):
        print(f'{what:54} tarn {timed(zfs, *argv):7.3f}', flush=True)
    for k in range(SNAPSHOTS // DATASETS):
        seconds = timed(zfs, 'snapshot', '-r', f'{top}@s{k}')
    print(f'{f"{DATASETS} snapshots in one recursive call":54} tarn {seconds:7.3f}', flush=True)
    for how in ('cold', 'warm'):
        if how == 'cold':
            pool.export()
            pool.import_()
        snapshots = ['list', '-H', '-t', 'snapshot']
        row(f'list {SNAPSHOTS} snapshots -o name, {how}', *snapshots, '-o', 'name', '-r', top)
        row(f'list {SNAPSHOTS} snapshots -o name -s name, {how}', *snapshots, '-o', 'name', '-s', 'name', '-r', top)
        row(f'list {SNAPSHOTS} snapshots, {how}', *snapshots, '-r', top)
    row(f'destroy {DATASETS} snapshots in one recursive call', 'destroy', '-r', f'{top}@s0')


def zfs_fuse(*args):
    """A moment after it was unmounted a file system is still busy there."""
    def done():
        nonlocal r
        r = run(['/usr/sbin/zfs', *args], timeout=600, check=False)
        return r.status == 0
    r = None
    wait_until(done, f'zfs-fuse to do {args}')
    return r


def peers(lab):
    """Those that this machine has."""
    found = []
    try:
        found.append(Btrfs(lab))
    except (Failure, OSError) as e:
        print(f'no btrfs here: {str(e).splitlines()[0]}')
    try:
        fuse = ZfsFuse(lab)
        found.append(Zfs(fuse.name, fuse.pool, fuse.mnt, zfs_fuse, fuse.flush))
        found[-1].end = fuse.close
    except (Failure, OSError) as e:
        print(f'no zfs-fuse here: {str(e).splitlines()[0]}')
    return found


def main():
    need_root()
    need_program()
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()] or [1000, 100000]
    with Lab('snapshots') as lab:
        pool = lab.pool('bench', ('16G',))
        ours = Zfs('tarn', pool.name, pool.mnt, lambda *a: zfs(*a, timeout=600), pool.sync)
        others = peers(lab)
        try:
            for files in numbers:
                compare([ours, *others], files)
        finally:
            for other in others:
                getattr(other, 'end', lambda: None)()
            unmount_below(lab.path('btrfs'))
        many(pool)
        pool.export()


if __name__ == '__main__':
    main()
