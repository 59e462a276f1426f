#!/usr/bin/env python3
"""raid.py [--guest] [NAME...]: Tarn's own redundant pools. For each layout:

  write      create, fill, export
  away       without as many devices as may be lost: imported DEGRADED, read, written to, exported
  back       with them again: every file is right, though these devices have missed much; they get it
  others     without others instead
  too few    one more is away: refused with a sentence, and nothing is damaged

fails: a device (a file on a small tmpfs) refuses writes in the middle of the work: it is put out of use,
the pool goes on, and what it missed is written down. heal: wrong bytes on one device are found by
reading, counted, and written again. lost: wrong bytes on all of them cost a file, which is named.

With --guest the reference's kernel imports after 'away', resilvers what the devices missed, and no more:
its scrub after that finds nothing to repair."""
import errno
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import fills
import judge
from lab import Failure, Lab, Report, need_program, need_root, run, seed, zpool

LAYOUTS = {
    'mirror': ('mirror:2', 1), 'mirror3': ('mirror:3', 2), 'raidz1': ('raidz1:3', 1),
    'raidz2': ('raidz2:5', 2), 'raidz3': ('raidz3:5', 3), 'raid50': ('raidz1:3 raidz1:3', 1),
}
SHORT = ('mirror', 'raidz1', 'raidz3')  # without --guest, unless names are given
FIRST = 4 << 20  # the room of the front labels


def states(pool):
    """{file name or guid: (state, read, write, checksum errors)} of all lines of zpool status."""
    text = zpool('status', '-p', pool.name).out
    rows = re.findall(r'^\t +(\S+) +([A-Z]+) +(\d+) +(\d+) +(\d+)', text, re.M)
    return {os.path.basename(name): (state, *map(int, n)) for name, state, *n in rows}


def check_health(pool, want):
    if pool.get('health') != want:
        raise Failure(f'health is not {want}:\n' + zpool('status', pool.name).out)


class Trial:
    def __init__(self, lab, name, rng, thorough):
        self.thorough = thorough
        self.layout, self.lost = LAYOUTS[name]
        self.rng, self.name = rng, name
        disks = sum(int(g.split(':')[1]) for g in self.layout.split())
        self.pool = lab.pool(f'r{name}', ['96M'] * disks, create=False)
        self.out = lab.path('away', self.pool.name)
        os.makedirs(self.out)
        self.gone = []

    def move(self, disks):
        for d in disks:
            os.rename(d, os.path.join(self.out, os.path.basename(d)))
        self.gone = disks

    def bring(self):
        for d in self.gone:
            os.rename(os.path.join(self.out, os.path.basename(d)), d)
        self.gone = []

    def zdb(self):
        if self.thorough:
            judge.zdb(self.pool.home, self.pool.name)

    def same(self):
        judge.compare(judge.manifest(self.pool.mnt), self.want, 'the tree')

    def write(self):
        self.pool.create(['-o', 'ashift=12' if self.rng.random() < .5 else 'ashift=9'], self.layout)
        fills.tree(self.pool.mnt, self.rng)
        fills.churn(self.pool.mnt, self.rng, 4)
        self.want = judge.manifest(self.pool.mnt)
        self.pool.export()
        return judge.verdict(self.pool) if self.thorough else None

    def without(self, disks):
        self.move(disks)
        self.pool.import_()
        check_health(self.pool, 'DEGRADED')
        self.same()
        fills.churn(self.pool.mnt, self.rng, 4)
        fills.tree(self.pool.mnt, self.rng)
        self.want = judge.manifest(self.pool.mnt)
        self.pool.export()
        self.zdb()

    def away(self):
        self.without(self.rng.sample(self.pool.vdevs[:int(self.layout.split(':')[1][0])], self.lost))
        return f'without {len(self.gone)}'

    def back(self):
        late = [os.path.basename(d) for d in self.gone]
        self.bring()
        self.pool.import_()
        self.same()
        zpool('wait', '-t', 'resilver', self.pool.name)
        text = zpool('status', self.pool.name).out
        if 'scan: resilvered' not in text or '(awaiting resilver)' in text:
            raise Failure(f'{late} came back:\n{text}')
        if any(any(row[1:]) for row in states(self.pool).values()):
            raise Failure(f'devices are blamed for what they missed:\n{text}')
        self.pool.export()
        self.zdb()

    def too_few(self):
        width = int(self.layout.split(':')[1][0])
        self.move(self.rng.sample(self.pool.vdevs[:width], self.lost + 1))
        r = self.pool.import_(check=False)
        # All devices of a pool away is no pool at all.
        want = 'no such pool' if len(self.gone) == len(self.pool.vdevs) else 'unavailable'
        if r.status != 1 or want not in r.err:
            raise Failure(f'imported without {len(self.gone)}:\n{r}')
        self.bring()
        self.pool.import_()
        self.same()
        self.pool.export()


def fails(lab, rng, report):
    """The device's host file system is full: the device fails in the middle of a txg."""
    for layout, count in (('mirror:2', 2), ('raidz1:3', 3)):
        pool = lab.pool('fails', ['96M'] * count, create=False)
        small = lab.path(f'small{count}')
        os.makedirs(small)
        run(['mount', '-t', 'tmpfs', '-o', 'size=12M', 'tmpfs', small])
        try:
            bad = os.path.join(small, 'bad.img')
            with open(bad, 'wb') as f:
                f.truncate(96 << 20)
            os.unlink(pool.vdevs[1])
            os.symlink(bad, pool.vdevs[1])
            report.check(f'fails: {layout}', failing, pool, layout, rng)
        finally:
            subprocess.run(['umount', '-l', small], check=False)


def failing(pool, layout, rng):
    pool.create(['-O', 'compression=off'], layout)
    fills.big(pool.mnt, rng, 30)
    pool.sync()
    check_health(pool, 'DEGRADED')
    if states(pool)['disk2.img'][0] != 'FAULTED' or not states(pool)['disk2.img'][2]:
        raise Failure(f'{states(pool)}')
    fills.churn(pool.mnt, rng, 2)
    want = judge.manifest(pool.mnt)
    pool.export()
    if judge.ready():
        judge.zdb(pool.home, pool.name)
    os.unlink(pool.vdevs[1])
    pool.import_()
    judge.compare(judge.manifest(pool.mnt), want, 'the tree')
    check_health(pool, 'DEGRADED')
    pool.export()


def heal(lab, rng):
    """Noise on one device; reading everything finds it, says so, and mends it."""
    pool = lab.pool('heal', ['96M'] * 3, create=False)
    pool.create(['-O', 'compression=off'], 'raidz1:3')
    fills.big(pool.mnt, rng, 16)
    want = judge.manifest(pool.mnt)
    pool.export()
    with open(pool.vdevs[1], 'r+b') as f:
        f.seek(FIRST)
        f.write(rng.randbytes(40 << 20))
    pool.import_()
    judge.compare(judge.manifest(pool.mnt), want, 'the tree')
    counted = states(pool)
    if not counted['disk2.img'][3] or counted['disk1.img'][1:] != (0, 0, 0):
        raise Failure(f'{counted}')
    pool.export()
    pool.import_()
    judge.compare(judge.manifest(pool.mnt), want, 'the tree')
    # Data has been mended. What of the metadata was in memory may be wrong still.
    if states(pool)['disk2.img'][3] > counted['disk2.img'][3] // 2:
        raise Failure(f'{counted}, then {states(pool)}')
    pool.export()
    return f'{counted["disk2.img"][3]} checksum errors'


def lost(lab, rng):
    """A block is wrong on both sides: the file is named, and everything else reads."""
    pool = lab.pool('lost', ['96M'] * 2, create=False)
    pool.create(['-O', 'compression=off'], 'mirror:2')
    mark = rng.randbytes(64)
    os.mkdir(os.path.join(pool.mnt, 'dir'))
    for name, content in (('dir/bad', mark * 2048), ('good', rng.randbytes(300000))):
        with open(os.path.join(pool.mnt, name), 'wb') as f:
            f.write(content)
    pool.export()
    for disk in pool.vdevs:
        with open(disk, 'r+b') as f:
            at = f.read().index(mark)
            f.seek(at)
            f.write(rng.randbytes(1000))
    pool.import_()
    bad = os.path.join(pool.mnt, 'dir', 'bad')
    for name in (bad, os.path.join(pool.mnt, 'good')):
        try:
            with open(name, 'rb') as f:
                f.read()
        except OSError as e:
            if e.errno != errno.EIO or name != bad:
                raise
        else:
            if name == bad:
                raise Failure('the bad file can be read')
    text = zpool('status', pool.name).out
    if "errors: 1 data errors, use '-v' for a list" not in text:
        raise Failure(text)
    text = zpool('status', '-v', pool.name).out
    want = f'Permanent errors have been detected in the following files:\n\n        {bad}\n'
    if want not in text:
        raise Failure(text)
    pool.export()


GUEST = r'''
fix() {
  P=$1
  zpool import -d /share/$P -N $P || { echo "@@ $P import"; return; }
  n=0   # it starts a while after the import, which no command waits for
  until zpool status $P | grep 'scan: resilvered .* with 0 errors'; do
    n=$((n + 1)); [ $n -lt 100 ] || { echo "@@ $P"; zpool status $P; return; }
    sleep 1
  done
  zpool status $P | grep -q 'state: ONLINE' || { echo "@@ $P"; zpool status $P; }
  timeout 200 zpool scrub -w $P
  zpool status $P | grep -q 'scrub repaired 0B .* with 0 errors' || { echo "@@ $P"; zpool status -v $P; }
  zpool export $P
}
'''


def main():
    need_root()
    need_program()
    guest = '--guest' in sys.argv
    if guest:
        judge.need_judge()
    names = [a for a in sys.argv[1:] if a[0] != '-'] or [*(LAYOUTS if guest else SHORT), 'fails', 'heal', 'lost']
    rng, report = random.Random(seed()), Report()
    with Lab('raid') as lab:
        trials = [Trial(lab, n, rng, guest) for n in names if n in LAYOUTS]
        for t in trials:
            for step in ('write', 'away', 'back'):
                if guest and step == 'back':
                    t.bring()
                elif not report.check(f'{t.name} {step}', getattr(t, step)):
                    break
        if guest:
            console = judge.guest(lab.dir, GUEST + ''.join(f'fix {t.pool.name}\n' for t in trials),
                                  timeout=120 + 60 * len(trials))
            print(console)
            if '@@' in console:
                report.fail('the reference resilvers', console)
                report.finish()
            for t in trials:
                t.gone = []
        for t in trials:
            report.check(f'{t.name} others', t.without, t.pool.vdevs[-t.lost:])
            report.check(f'{t.name} and back', t.back)
            report.check(f'{t.name} too few', t.too_few)
        if 'fails' in names:
            fails(lab, rng, report)
        if 'heal' in names:
            report.check('heal', heal, lab, rng)
        if 'lost' in names:
            report.check('lost', lost, lab, rng)
    report.finish()


if __name__ == '__main__':
    main()
