#!/usr/bin/env python3
"""on_tarn.py [PATTERN...]: the POSIX tests on Tarn mounts of several kinds, then the judge."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
import judge
from lab import Lab, Report, need_root, seed

KINDS = [
    ('xattr=sa', ['6G'], ['-o', 'ashift=12', '-O', 'xattr=sa', '-O', 'tarn:check_open=on']),
    ('xattr=dir, small records', ['3G', '3G'],
     ['-o', 'ashift=9', '-O', 'xattr=dir', '-O', 'recordsize=8K']),
]


def main():
    need_root()
    os.environ['TARN_SEED'] = str(seed())
    report = Report()
    for name, sizes, options in KINDS:
        with Lab('posix') as lab:
            pool = None

            def made():
                nonlocal pool
                pool = lab.pool('posix', sizes, [*options, '-O', 'acltype=posix'])
            if not report.check(f'{name}: create', made):
                continue
            print(f'on {name}:', flush=True)
            os.environ['POSIX_CHECKS_OPEN'] = str(int('tarn:check_open=on' in options))
            r = subprocess.run([os.path.join(HERE, 'run.py'), pool.mnt, *sys.argv[1:]], check=False)
            report.failed += r.returncode != 0
            report.check(f'{name}: export', pool.export)
            report.check(f'{name}: judge', judge.verdict, pool)
    report.finish()


if __name__ == '__main__':
    main()
