#!/usr/bin/env python3
"""on_tarn.py [SEEDS [OPS]]: the model test on a Tarn mount beside a tmpfs, with several seeds and
kinds of pools; the pool goes out and in again several times on the way. Afterwards the judge."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import BIN, BUILD, Failure, Lab, Report, need_root, reference_side, run, seed

KINDS = [
    ('plain', ['4G'], ['-o', 'ashift=12']),
    ('small records', ['2G', '2G'], ['-o', 'ashift=9', '-O', 'recordsize=4K']),
    ('large records, lz4', ['4G'], ['-o', 'ashift=12', '-O', 'recordsize=1M', '-O',
                                    'compression=lz4']),
    ('xattr=dir, no compression', ['4G'], ['-o', 'ashift=13', '-O', 'xattr=dir', '-O',
                                           'compression=off']),
]


def one(lab, value, ops, sizes, options):
    right = reference_side(lab)
    pool = lab.pool('model', sizes, [*options, '-O', 'acltype=posix'])
    again = f'{BIN}/zpool export {pool.name} && {BIN}/zpool import -d {pool.home} {pool.name}'
    model = os.path.join(BUILD, 'tests', 'model')
    r = run([model, '-s', value, '-n', ops, '-c', f'{max(ops // 4, 1)}:{again}', pool.mnt, right],
            timeout=240, check=False)
    pool.pid()          # the last import started another process
    if r.status != 0:
        raise Failure(str(r))
    pool.export()
    judge.verdict(pool)
    return f'seed {value}'


def main():
    need_root()
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else len(KINDS)
    ops = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    rng = random.Random(seed())
    report = Report()
    for i in range(seeds):
        name, sizes, options = KINDS[i % len(KINDS)]
        value = rng.randrange(1 << 31)
        with Lab('model') as lab:
            report.check(f'{name} {i}', one, lab, value, ops, sizes, options)
    report.finish()


if __name__ == '__main__':
    main()
