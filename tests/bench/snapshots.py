#!/usr/bin/env python3
"""snapshots.py [FILES...]: how long operations on datasets take: snapshot, rollback and clone by the
number of files (default 1000 and 100000), 1,000 snapshots in one recursive call, and listing
10,000 of them. Prints one line each, seconds."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from lab import Lab, need_program, need_root, zfs

SNAPSHOTS = 10000
DATASETS = 1000


def timed(what, *argv, timeout=600):
    start = time.monotonic()
    out = zfs(*argv, timeout=timeout).out
    print(f'{what:52} {time.monotonic() - start:8.3f}', flush=True)
    return out


def fill(folder, files):
    for i in range(files):
        if i % 1000 == 0:
            os.makedirs(f'{folder}/{i // 1000}')
        with open(f'{folder}/{i // 1000}/{i}', 'w') as f:
            f.write('x')


def by_files(pool, files):
    name = f'{pool.name}/n{files}'
    zfs('create', name)
    fill(f'{pool.mnt}/n{files}', files)
    pool.sync()
    timed(f'{files} files: snapshot', 'snapshot', f'{name}@a')
    timed(f'{files} files: clone', 'clone', f'{name}@a', f'{name}-clone')
    with open(f'{pool.mnt}/n{files}/later', 'w') as f:
        f.write('y')
    pool.sync()
    timed(f'{files} files: rollback', 'rollback', f'{name}@a')
    timed(f'{files} files: destroy the clone', 'destroy', f'{name}-clone')
    timed(f'{files} files: destroy the snapshot', 'destroy', f'{name}@a')


def many(pool):
    top = f'{pool.name}/many'
    zfs('create', '-o', 'mountpoint=none', top)
    start = time.monotonic()
    for i in range(DATASETS):
        zfs('create', f'{top}/d{i}')
    print(f'{f"create {DATASETS} datasets, one call each":52} {time.monotonic() - start:8.3f}')
    for k in range(SNAPSHOTS // DATASETS):
        timed(f'{DATASETS} snapshots in one recursive call', 'snapshot', '-r', f'{top}@s{k}')
    for _ in range(2):
        timed(f'list {SNAPSHOTS} snapshots', 'list', '-H', '-t', 'snapshot', '-r', top)
        timed(f'list {SNAPSHOTS} snapshots -o name', 'list', '-H', '-t', 'snapshot', '-o', 'name',
              '-r', top)
        out = timed(f'list {SNAPSHOTS} snapshots -o name -s name', 'list', '-H', '-t', 'snapshot',
                    '-o', 'name', '-s', 'name', '-r', top)
    print(f'{len(out.splitlines())} names')
    timed(f'destroy {DATASETS} snapshots by one range', 'destroy', '-r', f'{top}@s0')


def main():
    need_root()
    need_program()
    with Lab('snapshots') as lab:
        pool = lab.pool('bench', ('4G',))
        for files in [int(a) for a in sys.argv[1:]] or [1000, 100000]:
            by_files(pool, files)
        many(pool)
        pool.export()


if __name__ == '__main__':
    main()
