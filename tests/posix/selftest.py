#!/usr/bin/env python3
"""selftest.py: the POSIX tests themselves, on a tmpfs and on ext4. Both are right but for what they
are known not to have; so a test that fails there is wrong, and one that passes where it must fail
sees nothing."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
from lab import Failure, Lab, LoopFs, Report, need_root, need_tools, seed

LIMITS = {
    'tmpfs': set(),
    # its largest file and all of a file's attributes are smaller
    'ext4': {'sparse_to_the_end', 'xattr_rules'},
}


def suite(fs, kind):
    r = subprocess.run([os.path.join(HERE, 'run.py'), fs.mnt], stdout=subprocess.PIPE, text=True,
                       check=False)
    failed = set(re.findall(r'^not ok - (\w+)', r.stdout, re.M))
    if failed != LIMITS[kind]:
        raise Failure(f'failed: {sorted(failed)}, should be {sorted(LIMITS[kind])}\n{r.stdout}')
    return f"{len(re.findall('^ok', r.stdout, re.M))} tests"


def main():
    need_root()
    need_tools('setfacl', 'mkfs.ext4')
    os.environ['TARN_SEED'] = str(seed())
    report = Report()
    with Lab('posixself') as lab:
        for kind in LIMITS:
            report.check(f'on {kind}', suite, LoopFs(lab, kind), kind)
    report.finish()


if __name__ == '__main__':
    main()
