#!/usr/bin/env python3
"""fixtures_destroy.py: pools of the reference, imported read-write: everything in them is destroyed, snapshot by
snapshot and file system by file system, in random order. What is left is what an empty pool takes."""
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import TOP, Failure, Lab, Pool, Report, need_program, need_root, need_tools, seed, wait_until, zfs

FOLDER = os.path.join(TOP, 'tests', 'fixtures')
EMPTY = 4 << 20 # bytes: the MOS with its history, and an empty file system


def unpacked(lab, name):
    subprocess.run(f'zstd -q -d --long=31 -c "{FOLDER}/{name}.tar.zst" | tar x --sparse -C "{lab.dir}"',
                   shell=True, check=True)
    home = lab.path(name)
    disks = [os.path.join(home, f) for f in sorted(os.listdir(home)) if f.endswith('.img')]
    pool = Pool(lab, name, home, disks)
    lab.pools.append(pool)
    return pool


def all_of(pool):
    return [line.split('\t') for line in zfs('list', '-Hp', '-t', 'all', '-r', '-o', 'name,origin', pool.name).out.splitlines()][1:]


def destroy_one(rng, name, origin):
    """False: it has something that depends on it, or is held."""
    if '@' in name:
        for row in zfs('holds', '-H', name, check=False).out.splitlines():
            zfs('release', row.split('\t')[1], name, check=False)
    if origin not in '-' and rng.random() < .3:
        return zfs('promote', name, check=False).status == 0
    return zfs('destroy', name, check=False).status == 0


def destroy_all(pool, rng):
    pool.import_('-R', pool.mnt)
    count = 0
    while left := all_of(pool):
        rng.shuffle(left)
        done = [row for row in left[:8] if destroy_one(rng, *row)] or [row for row in left if destroy_one(rng, *row)]
        if not done:
            raise Failure(f'nothing of this can be destroyed: {left}')
        count += len(done)
    top = zfs('get', '-H', '-o', 'value', 'mountpoint', pool.name).out.strip()
    for entry in os.listdir(top):
        path = os.path.join(top, entry)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    pool.sync()
    wait_until(lambda: pool.get('freeing') == '0', 'the end of the freeing')
    used = {p: int(pool.get(p, '')) for p in ('usedbysnapshots', 'usedbydataset')}
    if used['usedbysnapshots'] != 0 or used['usedbydataset'] > 200000:
        raise Failure(f'{used}')
    pool.sync()
    alloc = int(pool.get('allocated'))
    pool.export()
    if alloc > EMPTY:
        raise Failure(f'{alloc} bytes are still allocated')
    return f'{count} destroyed, {alloc} bytes left'


def main():
    need_root()
    need_tools('zstd')
    need_program()
    report, rng = Report(), random.Random(seed())
    with Lab('destroy') as lab:
        os.environ['TARN_RUN_DIR'] = lab.path('run')
        os.makedirs(lab.path('run'), mode=0o700)
        for name in ('basic', 'aged'):
            pool = unpacked(lab, name)
            if report.check(name, destroy_all, pool, rng):
                report.check(f'{name}: judge', judge.verdict, pool)
    report.finish()


if __name__ == '__main__':
    main()
