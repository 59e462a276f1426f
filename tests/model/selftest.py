#!/usr/bin/env python3
"""selftest.py: the model test must find nothing between ext4 and tmpfs, and must find each kind of
damage that is done behind its back."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from lab import BUILD, Failure, Lab, LoopFs, Report, need_root, reference_side, run, seed

DAMAGE = ['data', 'size', 'mode', 'owner', 'name', 'extra', 'xattr', 'errno', 'result']


def model(lab, ext4, right, *args):
    for side in (ext4.mnt, right):
        shutil.rmtree(os.path.join(side, 't'), ignore_errors=True)
    again = f'umount {ext4.mnt} && mount -o loop {ext4.image} {ext4.mnt}'
    return run([os.path.join(BUILD, 'tests', 'model'), *args, '-c', f'2000:{again}', ext4.mnt,
                right], timeout=120, check=False)


def clean(lab, ext4, right, value):
    r = model(lab, ext4, right, '-s', value, '-n', 6000)
    if r.status != 0:
        raise Failure(str(r))


def damaged(lab, ext4, right, value, kind):
    """A later operation can happen to undo the damage before it is looked at, so a seed may miss it;
    three in a row may not."""
    for k in range(3):
        r = model(lab, ext4, right, '-s', str(int(value) + k), '-n', 1500, '-b', kind)
        if r.status == 1 and 'FAIL at operation' in r.out:
            return
    raise Failure(f'damage was not noticed:\n{r}')


def main():
    need_root()
    value = seed()
    report = Report()
    with Lab('modelself') as lab:
        ext4, right = LoopFs(lab, 'ext4'), reference_side(lab)
        report.check('ext4 and tmpfs agree', clean, lab, ext4, right, value)
        for kind in DAMAGE:
            report.check(f'damage noticed: {kind}', damaged, lab, ext4, right, value, kind)
    report.finish()


if __name__ == '__main__':
    main()
