#!/usr/bin/env python3
"""memory.py [FILES [SPARSE [BLOCKS]]]: what the pool process keeps in memory stays below its cache
limit and 256 MB, with many files that the kernel refers to, a sparse file of 1 TB, many blocks."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from lab import BUILD, Failure, Lab, Report, need_root, run, seed

LIMIT = 64
ALLOWED = LIMIT + 256


def without_mount(kind, n):
    """The file layer alone, which is several times as fast."""
    program = os.path.join(BUILD, 'tests', 'fs', 'fsmemory')
    done = subprocess.run([program, str(LIMIT), kind, str(n)], text=True, stdout=subprocess.PIPE)
    print(done.stdout, end='')
    if done.returncode:
        raise Failure(f'fsmemory ends with {done.returncode}')


def mounted(lab, n):
    os.environ['TARN_CACHE_LIMIT'] = f'{LIMIT}M'
    pool = lab.pool('memory', ['8G'])
    data = os.urandom(4096)
    for i in range(n):
        folder = os.path.join(pool.mnt, f'd{i // 1000}')
        if i % 1000 == 0:
            os.mkdir(folder)
        with open(os.path.join(folder, f'f{i}'), 'wb') as f:
            f.write(data)
    with open(os.path.join(pool.mnt, 'big'), 'wb') as f:
        for _ in range(200):
            f.write(data * 256)
    run(['du', '-s', pool.mnt], timeout=200)
    high = pool.memory_high() >> 20
    print(f'{n} files through a mount: at most {high} MB resident')
    if high > ALLOWED:
        raise Failure(f'{high} MB resident, {ALLOWED} allowed')
    pool.export()


def main():
    files, sparse, blocks = [int(a) for a in sys.argv[1:]] or (200000, 4000, 300000)
    need_root()
    seed()
    report = Report()
    with Lab('memory') as lab:
        os.environ['TARN_TMP'] = lab.dir
        report.check('files', without_mount, 'files', files)
        report.check('sparse', without_mount, 'sparse', sparse)
        report.check('blocks', without_mount, 'blocks', blocks)
        report.check('mounted', mounted, lab, files // 10)
    report.finish()


main()
