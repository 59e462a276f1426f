#!/usr/bin/env python3
"""selftest.py: the judges themselves. On a good pool of the reference both opinions are good; with
each kind of damage the one that should see it does."""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
sys.path.insert(0, HERE)
import check
import judge
import poolread
from lab import TOP, Failure, Lab, Report, need_tools


def unpack(lab, name):
    archive = os.path.join(TOP, 'tests', 'fixtures', name + '.tar.zst')
    subprocess.run(f'zstd -q -d --long=31 -c "{archive}" | tar x -C "{lab.dir}"', shell=True,
                   check=True)
    return sorted(glob.glob(lab.path(name, '*.img')))


def mismatches(images, change=None):
    """What the second reader says, with its view of the pool changed in one point."""
    checker = check.Checker(images)
    if change:
        change(checker)
    return checker.run()


def head_of(checker):
    directory = checker.mos.dnode(checker.pool.directory['root_dataset'])
    return directory.bonus_u64(8)


def counter(checker, number, offset):
    """Makes one counter in a bonus buffer read as one sector more."""
    plain = checker.mos.dnode

    def dnode(n):
        d = plain(n)
        if n == number:
            at = d.bonus_offset + offset
            raw = bytearray(d.raw)
            raw[at:at + 8] = (poolread.u64(raw, at) + 512).to_bytes(8, 'little')
            d.raw = bytes(raw)
        return d
    checker.mos.dnode = dnode


def space(checker, offset, value):
    """Flips one allocation unit in the loaded space map."""
    plain = checker.pool.load_space

    def load():
        result = plain()
        top = checker.pool.tops[0]
        at = top.map.index(1 - value, offset)
        top.map[at] = value
        return result
    checker.pool.load_space = load


DAMAGE = {
    'referenced of a dataset': lambda c: counter(c, head_of(c), 0x48),
    'unique of a dataset': lambda c: counter(c, head_of(c), 0x60),
    'used of a directory': lambda c: counter(c, c.pool.directory['root_dataset'], 0x28),
    'a leaked unit': lambda c: space(c, 1000, 1),
    'a unit in use but free': lambda c: space(c, 0, 0),
    'feature count': lambda c: setattr(c.pool, 'feature', lambda guid: 77),
}


def second_reader(images, change, want_bad):
    bad = mismatches(images, change)
    if bool(bad) != want_bad:
        raise Failure(f'{bad} mismatches')


def zdb_good(images, name):
    judge.zdb(os.path.dirname(images[0]), name)


def zdb_bad(lab, images, name):
    """A block of the pool overwritten in all its copies: zdb must object."""
    folder = lab.path('hurt')
    os.makedirs(folder)
    pool = poolread.Pool(images)
    head = pool.mos.dnode(pool.directory['root_dataset']).bonus_u64(8)
    dataset = pool.mos.dnode(head)
    raw = dataset.raw[dataset.bonus_offset + 0x80:dataset.bonus_offset + 0x100]
    for image in images:
        shutil.copy(image, folder)
    for vdev, offset, _, _ in poolread.BlockPointer(raw).dvas():
        with open(os.path.join(folder, os.path.basename(images[vdev])), 'r+b') as f:
            f.seek(poolread.DATA_START + offset)
            f.write(os.urandom(512))
    try:
        judge.zdb(folder, name)
    except Failure:
        return
    raise Failure('zdb accepts a pool whose root file system is damaged')


def main():
    need_tools('zstd')
    report = Report()
    with Lab('judges') as lab:
        for name in ('aged', 'stripe', 'basic'):
            images = unpack(lab, name)
            report.check(f'second reader: {name} is good', second_reader, images, None, False)
        images = unpack(lab, 'stripe')
        for what, change in DAMAGE.items():
            report.check(f'second reader sees: {what}', second_reader, images, change, True)
        if judge.ready():
            report.check('zdb: stripe is good', zdb_good, images, 'stripe')
            report.check('zdb sees a damaged block', zdb_bad, lab, images, 'stripe')
        else:
            report.skip('zdb', 'the judge is not set up (tests/judge/oracle setup)')
    report.finish()


if __name__ == '__main__':
    main()
