#!/usr/bin/env python3
"""scrub.py [--guest] [NAME...]: scrub and resilver of Tarn's own pools. For each layout:

  noise      as many devices as may be lost are overwritten: one scrub repairs all, the next finds nothing
  missed     devices are away while the pool is written to, and come back: they get what they missed, and then
             others can be away instead

changes: a scrub that is stopped after every few blocks, while snapshots, clones and file systems come and go,
and that is killed and taken up again: it misses nothing. resumed: the same for a resilver. words: what the
commands say. lost: damage on all sides is counted, named, and stays so; the devices that come back to it are not
taken for whole.

With --guest the reference has the last word on each pool; 'handover' and 'handover2': it continues Tarn's scrub
and resilver, and Tarn continues its own."""
import json
import mmap
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import fills
import judge
from lab import Failure, Lab, Report, need_program, need_root, seed, zfs, zpool

LAYOUTS = {
    'mirror3': ('mirror:3', 2), 'raidz1': ('raidz1:3', 1), 'raidz2': ('raidz2:5', 2),
    'raidz3': ('raidz3:5', 3), 'raid50': ('raidz1:3 raidz1:3', 1), 'raid10': ('mirror:2 mirror:2', 1),
}
SHORT = ('mirror3', 'raidz2', 'raid10')
FIRST = 4 << 20  # the room of the front labels


def width(layout):
    return int(layout.split(':')[1].split()[0])


def disks_of(layout):
    return sum(int(g.split(':')[1]) for g in layout.split())


def noise(path, rng):
    """Labels stay as they are: it is the blocks that are to be found. Past the page cache, as the pool
    writes: pages that are dirty when it does are an error to both."""
    start, end = FIRST, os.path.getsize(path) - (1 << 20)
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    with mmap.mmap(-1, 4 << 20) as memory:
        while start < end:
            n = min(end - start, len(memory))
            memory[:n] = rng.randbytes(n)
            with memoryview(memory) as view, view[:n] as part:
                start += os.pwrite(fd, part, start)
    os.close(fd)


def stats(pool):
    text = zpool('status', '-j', '--json-int', pool.name).out
    return json.loads(text)['pools'][pool.name].get('scan_stats', {})


def scan_line(pool):
    m = re.search(r'^  scan: (.*)$', zpool('status', pool.name).out, re.M)
    return m[1] if m else ''


def want_line(pool, pattern):
    line = scan_line(pool)
    if not re.fullmatch(pattern + r' on \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}', line):
        raise Failure(f'scan: {line!r}, not {pattern!r}\n' + zpool('status', '-v', pool.name).out)


def scrub(pool):
    zpool('scrub', '-w', pool.name, timeout=200)


def clean(pool):
    """A scrub finds nothing, in a process that has read nothing yet."""
    pool.export()
    pool.import_()
    scrub(pool)
    want_line(pool, r'scrub repaired 0B in \d\d:\d\d:\d\d with 0 errors')


class stopped:
    """Pools imported here examine so many blocks per txg, and only when there is one."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __enter__(self):
        os.environ['TARN_SCAN_BLOCKS'] = str(self.blocks)

    def __exit__(self, *exc):
        del os.environ['TARN_SCAN_BLOCKS']


class Trial:
    def __init__(self, lab, name, rng):
        self.layout, self.lost = LAYOUTS[name]
        self.rng, self.name = rng, name
        self.pool = lab.pool(f's{name}', ['96M'] * disks_of(self.layout), create=False)
        self.out = lab.path('away', self.pool.name)
        os.makedirs(self.out)

    def some(self):
        """As many devices of the first vdev as may be lost."""
        return self.rng.sample(self.pool.vdevs[:width(self.layout)], self.lost)

    def same(self):
        judge.compare(judge.manifest(self.pool.mnt), self.want, 'the tree')

    def noise(self):
        pool = self.pool
        pool.create(['-o', 'ashift=12' if self.rng.random() < .5 else 'ashift=9'], self.layout)
        fills.tree(pool.mnt, self.rng)
        fills.churn(pool.mnt, self.rng, 3)
        self.want = judge.manifest(pool.mnt)
        pool.sync()
        scrub(pool) # what it has read must not hide what comes now
        bad = self.some()
        for path in bad:
            noise(path, self.rng)
        scrub(pool)
        want_line(pool, r'scrub repaired [\d.]+[KM] in \d\d:\d\d:\d\d with 0 errors')
        clean(pool)
        self.same()
        pool.export()
        judge.verdict(pool)
        return ', '.join(os.path.basename(b) for b in bad)

    def away(self, disks):
        for d in disks:
            os.rename(d, os.path.join(self.out, os.path.basename(d)))

    def back(self, disks):
        for d in disks:
            os.rename(os.path.join(self.out, os.path.basename(d)), d)

    def missed(self):
        pool, first = self.pool, self.some()
        self.away(first)
        pool.import_()
        before = int(pool.get('allocated'))
        fills.churn(pool.mnt, self.rng, 3)
        self.want = judge.manifest(pool.mnt)
        pool.export()
        self.back(first)
        pool.import_()
        zpool('wait', '-t', 'resilver', pool.name, timeout=200)
        want_line(pool, r'resilvered [\d.]+[KM] in \d\d:\d\d:\d\d with 0 errors')
        given = stats(pool)['processed']
        if given > before * len(first):
            raise Failure(f'{given} bytes were resilvered')
        text = zpool('status', pool.name).out
        if 'awaiting' in text or 'state: ONLINE' not in text or 'status:' in text:
            raise Failure(text)
        clean(pool)
        pool.export()
        judge.verdict(pool)
        others = [d for d in self.pool.vdevs[:width(self.layout)] if d not in first][:self.lost]
        self.away(others)
        pool.import_()
        self.same()
        pool.export()
        self.back(others)
        pool.import_() # they lack what that import wrote
        zpool('wait', '-t', 'resilver', pool.name, timeout=200)
        pool.export()
        return f'{given} bytes'


class Changes:
    """Datasets come and go while a scan is under way."""

    def __init__(self, pool, rng):
        self.pool, self.rng, self.n = pool, rng, 0
        self.log = []

    def fs(self):
        return [x for x in zfs('list', '-H', '-o', 'name', '-r', '-t', 'filesystem',
                               self.pool.name).out.split() if '/' in x]

    def snaps(self):
        return zfs('list', '-H', '-o', 'name', '-t', 'snapshot', '-r', self.pool.name).out.split()

    def fresh(self):
        self.n += 1
        return f'x{self.n}'

    def try_(self, *args):
        """What cannot be (it has clones, it has children) is refused, and that is all right."""
        r = zfs(*args, check=False)
        self.log.append(f'{" ".join(args)} = {r.status}')
        if r.status not in (0, 1) or 'suspended' in r.err:
            raise Failure(f'{r}')

    def step(self):
        rng, fs, snaps = self.rng, self.fs(), self.snaps()
        what = rng.choice(['create', 'snapshot', 'snapshot', 'gone', 'gone', 'gone', 'rollback', 'clone',
                           'promote', 'destroy', 'write'])
        if what == 'create':
            self.try_('create', f'{self.pool.name}/{self.fresh()}')
        elif what == 'snapshot' and fs:
            self.try_('snapshot', f'{rng.choice(fs)}@{self.fresh()}')
        elif what == 'gone' and snaps:
            self.try_('destroy', rng.choice(snaps))
        elif what == 'rollback' and snaps:
            self.try_('rollback', rng.choice(snaps))
        elif what == 'clone' and snaps:
            self.try_('clone', rng.choice(snaps), f'{self.pool.name}/{self.fresh()}')
        elif what == 'promote' and fs:
            self.try_('promote', rng.choice(fs))
        elif what == 'destroy' and len(fs) > 2:
            self.try_('destroy', rng.choice(fs))
        elif fs:
            folder = os.path.join(self.pool.mnt, rng.choice(fs).split('/', 1)[1])
            with open(os.path.join(folder, self.fresh()), 'wb') as f:
                f.write(rng.randbytes(rng.randrange(300000)))


def datasets(pool, rng):
    """File systems with snapshots that differ, and clones of them."""
    for name in ('a', 'b', 'c', 'd'):
        zfs('create', f'{pool.name}/{name}')
        for k in range(4):
            for i in range(12):
                with open(os.path.join(pool.mnt, name, f'f{rng.randrange(20)}'), 'wb') as f:
                    f.write(rng.randbytes(rng.randrange(200000)))
            zfs('snapshot', f'{pool.name}/{name}@s{k}')
    zfs('clone', f'{pool.name}/b@s1', f'{pool.name}/clone')
    with open(os.path.join(pool.mnt, 'clone', 'own'), 'wb') as f:
        f.write(rng.randbytes(500000))
    zfs('snapshot', f'{pool.name}/clone@own')


def step_through(pool, rng, act):
    """Txg by txg to the end of the scan, with a kill and an export on the way."""
    last, rounds = 0, 0
    while stats(pool)['state'] == 'SCANNING':
        rounds += 1
        if act:
            act.step()
        pool.sync()
        now = stats(pool)
        if now['examined'] < last:
            raise Failure(f'examined went from {last} to {now["examined"]}')
        last = now['examined']
        if rounds > 3000:
            raise Failure('it does not come to an end')
        if rounds % 7 == 3:
            pool.sync()
            pool.kill()
            pool.import_()
        elif rounds % 7 == 6:
            pool.export()
            pool.import_()
    return rounds


def changes(lab, rng):
    pool = lab.pool('changes', ['160M'] * 2, create=False)
    pool.create(['-O', 'compression=off'], 'mirror:2')
    datasets(pool, rng)
    pool.export()
    for turn in range(2):
        noise(pool.vdevs[turn], rng)
        with stopped(rng.randrange(6, 14)):
            pool.import_()
            zpool('scrub', pool.name)
            act = Changes(pool, rng)
            rounds = step_through(pool, rng, act)
            want_line(pool, r'scrub repaired [\d.]+[KM] in \d\d:\d\d:\d\d with 0 errors')
            pool.export()
        pool.import_()
        try:
            clean(pool)
        except Failure as e:
            raise Failure('\n'.join([str(e), *act.log])) from e
        pool.export()
        judge.verdict(pool)
    return f'{rounds} steps'


def resumed(lab, rng):
    """A resilver in small steps, with changes; then the device that had everything can go."""
    pool = lab.pool('resumed', ['160M'] * 2, create=False)
    pool.create(['-O', 'compression=off'], 'mirror:2')
    pool.export()
    away = hide(lab, pool.vdevs[1])
    pool.import_()
    datasets(pool, rng)
    pool.export()
    os.rename(away, pool.vdevs[1])
    with stopped(rng.randrange(2, 7)):
        pool.import_()
        pool.sync()
        if 'resilver in progress since' not in scan_line(pool):
            raise Failure(scan_line(pool))
        rounds = step_through(pool, rng, Changes(pool, rng))
        want_line(pool, r'resilvered [\d.]+[KM] in \d\d:\d\d:\d\d with 0 errors')
        pool.export()
    pool.import_()
    clean(pool)
    want = judge.manifest(pool.mnt)
    pool.export()
    judge.verdict(pool)
    os.unlink(pool.vdevs[0])
    pool.import_()
    judge.compare(judge.manifest(pool.mnt), want, 'the tree')
    pool.export()
    return f'{rounds} steps'


def hide(lab, path):
    """Out of the folder: a device is found under any name."""
    away = lab.path(os.path.basename(path) + '.away')
    os.rename(path, away)
    return away


def refused(args, sentence):
    r = zpool(*args, check=False)
    if r.status != 1 or r.err.strip() != sentence:
        raise Failure(f'{r}not {sentence!r}')


def words(lab, rng):
    pool = lab.pool('words', ['96M'] * 2, create=False)
    pool.create([], 'mirror:2')
    fills.big(pool.mnt, rng, 8)
    p = pool.name
    zpool('resilver', p)
    if scan_line(pool):
        raise Failure(scan_line(pool))
    refused(['scrub', '-s', p], f'cannot cancel scrubbing {p}: there is no active scrub')
    pool.export()
    with stopped(0):
        pool.import_()
        zpool('scrub', p)
        refused(['scrub', p], f"cannot scrub {p}: currently scrubbing; use 'zpool scrub -s' to cancel scrub")
        text = zpool('status', p).out
        if not re.search(r'\n  scan: scrub in progress since .*\n\t0B / [\d.]+M scanned, 0B / [\d.]+M issued\n'
                         r'\t0B repaired, 0.00% done, no estimated completion time\n', text):
            raise Failure(text)
        zpool('scrub', '-p', p)
        text = zpool('status', p).out
        if not re.search(r'\n  scan: scrub paused since .*\n\tscrub started on .*\n\t0B / [\d.]+M scanned, 0B / '
                         r'[\d.]+M issued\n\t0B repaired, 0.00% done\n', text):
            raise Failure(text)
        refused(['scrub', '-p', p],
                f"cannot pause scrubbing {p}: scrub is paused; use 'zpool scrub' to resume scrub")
        zpool('wait', '-t', 'scrub', p)
        pool.export()
        pool.import_()
        if 'scrub paused since' not in scan_line(pool):
            raise Failure(scan_line(pool))
        zpool('scrub', p)
        if 'scrub in progress since' not in scan_line(pool):
            raise Failure(scan_line(pool))
        zpool('scrub', '-s', p)
        want_line(pool, 'scrub canceled')
        pool.export()
        away = hide(lab, pool.vdevs[1])
        pool.import_()
        fills.churn(pool.mnt, rng, 1)
        pool.export()
        os.rename(away, pool.vdevs[1])
        pool.import_()
        pool.sync()
        refused(['scrub', p], f'cannot scrub {p}: currently resilvering')
        refused(['scrub', '-s', p], f'cannot cancel scrubbing {p}: currently resilvering')
        refused(['scrub', '-p', p], f'cannot pause scrubbing {p}: currently resilvering')
        text = zpool('status', p).out
        if 'currently being resilvered' not in text or 'Wait for the resilver' not in text:
            raise Failure(text)
        pool.export()
    pool.import_()
    out = zpool('wait', '-t', 'scrub,resilver', p, '1').out
    if not out.startswith('  RESILVER   SCRUB\n') or out.splitlines()[-1].split() != ['0', '0']:
        raise Failure(out)
    history = zpool('history', '-i', p).out
    for want in ('scan setup func=1 mintxg=0 maxtxg=', 'scan cancelled errors=0', 'scan setup func=2 mintxg=',
                 'scan done errors=0'):
        if f'] {want}' not in history:
            raise Failure(history)
    pool.export()


def lost(lab, rng):
    pool = lab.pool('lost', ['96M'] * 3, create=False)
    pool.create(['-O', 'compression=off'], 'mirror:3')
    pool.export()
    away = hide(lab, pool.vdevs[2])
    pool.import_()
    mark = rng.randbytes(64)
    for name, content in (('bad', mark * 2048), ('good', rng.randbytes(3000000))):
        with open(os.path.join(pool.mnt, name), 'wb') as f:
            f.write(content)
    pool.export()
    for disk in pool.vdevs[:2]:
        with open(disk, 'r+b') as f:
            at = f.read().index(mark)
            f.seek(at)
            f.write(rng.randbytes(1000))
    os.rename(away, pool.vdevs[2])
    pool.import_()
    zpool('wait', '-t', 'resilver', pool.name)
    want_line(pool, r'resilvered [\d.]+M in \d\d:\d\d:\d\d with 1 errors')
    text = zpool('status', '-v', pool.name).out
    if f'        {pool.mnt}/bad\n' not in text or text.count('(awaiting resilver)') != 1:
        raise Failure(text)
    # All but that block was given to it.
    with open(os.path.join(pool.mnt, 'bad'), 'r+b') as f:
        f.truncate(0)
    pool.sync()
    zpool('resilver', pool.name)
    zpool('wait', '-t', 'resilver', pool.name)
    want_line(pool, r'resilvered [\d.]+[BKM] in \d\d:\d\d:\d\d with 0 errors')
    scrub(pool)
    want_line(pool, r'scrub repaired 0B in \d\d:\d\d:\d\d with 0 errors')
    text = zpool('status', '-v', pool.name).out
    if 'errors: No known data errors' not in text or 'awaiting' in text:
        raise Failure(text)
    pool.export()


GUEST = r'''
check() {
  P=$1
  zpool import -d /share/$P -N $P || { echo "@@ $P import"; return; }
  timeout 200 zpool scrub -w $P
  zpool status $P | grep -q 'scrub repaired 0B .* with 0 errors' || { echo "@@ $P"; zpool status -v $P; }
  zpool export $P
}
'''

HANDOVER = r'''
P=%s
echo 1 > /sys/module/zfs/parameters/zfs_scan_legacy
zpool import -d /share/$P -N $P || echo "@@ import"
timeout 200 zpool wait -t scrub $P
zpool status $P | grep 'scrub repaired .*[KM] in .* with 0 errors' || { echo "@@ went on"; zpool status -v $P; }
zpool history -i $P | grep 'scan '
echo 1 > /sys/module/zfs/parameters/zfs_scan_suspend_progress
zpool scrub $P
echo 20 > /sys/module/zfs/parameters/zfs_scrub_min_time_ms
for i in 1 2 3; do
  echo 0 > /sys/module/zfs/parameters/zfs_scan_suspend_progress; zpool sync $P
  echo 1 > /sys/module/zfs/parameters/zfs_scan_suspend_progress; zpool sync $P
  zdb -dddd $P 1 | grep ' scan ='
done
zpool status $P | grep 'scrub in progress' || { echo "@@ in progress"; zpool status $P; }
zpool export $P
'''


def handover(lab, rng):
    pool = lab.pool('handover', ['256M'] * 2, create=False)
    pool.create(['-O', 'compression=off', '-O', 'recordsize=4k'], 'mirror:2')
    datasets(pool, rng)
    fills.big(pool.mnt, rng, 40)
    pool.export()
    noise(pool.vdevs[0], rng)
    with stopped(300):
        pool.import_()
        zpool('scrub', pool.name)
        for _ in range(6):
            pool.sync()
        if not 0 < stats(pool)['examined'] < stats(pool)['to_examine']:
            raise Failure(f'{stats(pool)}')
        pool.export()
    console = judge.guest(lab.dir, HANDOVER % pool.name, timeout=300)
    print(console)
    if '@@' in console:
        raise Failure(console)
    noise(pool.vdevs[1], rng)
    with stopped(0):
        pool.import_()
        print(scan_line(pool), stats(pool))
        if 'scrub in progress' not in scan_line(pool):
            raise Failure(scan_line(pool))
        pool.export()
    pool.import_()
    zpool('wait', '-t', 'scrub', pool.name)
    want_line(pool, r'scrub repaired [\d.]+[KM] in \d\d:\d\d:\d\d with 0 errors')
    pool.export()
    judge.verdict(pool)


HANDOVER2 = r'''
P=%s
SCAN=/sys/module/zfs/parameters/zfs_scan_suspend_progress
MIN=/sys/module/zfs/parameters/zfs_resilver_min_time_ms
echo 1 > /sys/module/zfs/parameters/zfs_scan_legacy
zpool import -d /share/$P -N $P || echo "@@ import"
timeout 200 zpool wait -t resilver $P
zpool status $P | grep 'resilvered .*[KM] in .* with 0 errors' || { echo "@@ went on"; zpool status -v $P; }
timeout 200 zpool scrub -w $P
zpool status $P | grep 'scrub repaired 0B .* with 0 errors' || { echo "@@ whole"; zpool status -v $P; }
zpool history -i $P | grep 'scan '
zpool offline $P /share/$P/disk1.img
zfs create -o mountpoint=/tmp/new $P/new || echo "@@ create"
dd if=/dev/urandom of=/tmp/new/large bs=1M count=30 2>&1
zpool sync $P
echo 1 > $SCAN; echo 20 > $MIN
zpool online $P /share/$P/disk1.img
echo 0 > $SCAN; zpool sync $P; echo 1 > $SCAN; zpool sync $P
zpool status $P | grep 'resilver in progress' || { echo "@@ in progress"; zpool status $P; }
zpool export $P || echo "@@ export"
'''


def handover2(lab, rng):
    pool = lab.pool('handover2', ['256M'] * 2, create=False)
    pool.create(['-O', 'compression=off', '-O', 'recordsize=4k'], 'mirror:2')
    pool.export()
    away = hide(lab, pool.vdevs[1])
    pool.import_()
    datasets(pool, rng)
    fills.big(pool.mnt, rng, 40)
    pool.export()
    os.rename(away, pool.vdevs[1])
    with stopped(300):
        pool.import_()
        for _ in range(6):
            pool.sync()
        if 'resilver in progress' not in scan_line(pool):
            raise Failure(scan_line(pool))
        pool.export()
    console = judge.guest(lab.dir, HANDOVER2 % pool.name, timeout=400)
    print(console)
    if '@@' in console:
        raise Failure(console)
    with stopped(0):
        pool.import_()
        print(scan_line(pool), stats(pool))
        if 'resilver in progress' not in scan_line(pool):
            raise Failure(scan_line(pool))
        pool.export()
    pool.import_()
    zpool('wait', '-t', 'resilver', pool.name)
    want_line(pool, r'resilvered [\d.]+[KM] in \d\d:\d\d:\d\d with 0 errors')
    clean(pool)
    pool.export()
    judge.verdict(pool)


def main():
    need_root()
    need_program()
    guest = '--guest' in sys.argv
    if guest:
        judge.need_judge()
    others = {'changes': changes, 'resumed': resumed, 'words': words, 'lost': lost}
    handovers = {'handover': handover, 'handover2': handover2}
    names = [a for a in sys.argv[1:] if a[0] != '-']
    names = names or [*(LAYOUTS if guest else SHORT), *others, *handovers]
    rng, report = random.Random(seed()), Report()
    with Lab('scrub') as lab:
        for name in [n for n in names if n in LAYOUTS]:
            t = Trial(lab, name, rng)
            if report.check(f'{name} noise', t.noise):
                report.check(f'{name} missed', t.missed)
        for name in [n for n in names if n in others]:
            report.check(name, others[name], lab, rng)
        if guest:
            if report.failed == 0 and lab.pools:
                console = judge.guest(lab.dir, GUEST + ''.join(f'check {p.name}\n' for p in lab.pools),
                                      timeout=120 + 60 * len(lab.pools))
                if '@@' in console:
                    report.fail('the reference finds nothing', console)
            for name in [n for n in names if n in handovers]:
                report.check(name, handovers[name], lab, rng)
    report.finish()


if __name__ == '__main__':
    main()
