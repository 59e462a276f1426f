#!/usr/bin/env python3
"""devices.py [--guest] [NAME...]: the life of a pool whose devices come and go while people work.

  life       one disk becomes a mirror, loses and gets back a side, grows by others, has disks replaced and
             taken out, always with a writer at work; after each command every file is right, and after
             some the reference's zdb looks at the exported pool
  away       a device whose file is gone is found to be gone (reopen), and taken back
  full       a device that refuses writes is put out of use, and is in use again after clear
  kill       the pool process is killed at a random moment of a command: the pool imports, with every file

With --guest the reference's kernel imports pools as each command left them, resilvers what devices lack, and finds
nothing else to repair; then Tarn reads them."""
import os
import random
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import fills
import judge
from lab import BIN, Failure, Lab, Report, need_program, need_root, run, seed, zpool

SIZE = '96M'
HOLD = 'TARN_SCAN_BLOCKS'  # '0': resilvers wait


class Writer:
    """Writes and removes small files in a folder of its own, until it is stopped."""

    def __init__(self, folder, rng):
        self.folder, self.rng = folder, random.Random(rng.random())
        self.stop, self.error, self.count = threading.Event(), None, 0
        os.makedirs(folder, exist_ok=True)

    def work(self):
        while not self.stop.is_set():
            name = os.path.join(self.folder, f'w{self.count % 20}')
            content = self.rng.randbytes(self.rng.randrange(1, 200000))
            try:
                with open(name, 'wb') as f:
                    f.write(content)
                with open(name, 'rb') as f:
                    if f.read() != content:
                        self.error = Failure(f'{name} is not what was written')
                        return
            except OSError as e:
                self.error = e
                return
            self.count += 1

    def __enter__(self):
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()
        if self.error and not exc[0]:
            raise self.error


class Life:
    def __init__(self, pool, rng, report):
        self.pool, self.rng, self.report = pool, rng, report
        self.disk = pool.vdevs

    def name(self, word):
        """'0' is the first disk; other words are themselves."""
        return self.disk[int(word)] if word.isdigit() else word

    def look(self, want_health):
        if self.pool.get('health') != want_health:
            raise Failure(f'health is not {want_health}:\n' + zpool('status', self.pool.name).out)
        want = judge.manifest(self.pool.mnt)
        self.pool.export()
        if judge.ready() and self.rng.random() < .15:  # it takes seconds
            judge.zdb(self.pool.home, self.pool.name)
        self.pool.import_()
        judge.compare(judge.manifest(self.pool.mnt), want, 'the tree')

    def step(self, command, want, health='ONLINE'):
        """want: a sentence that the command is refused with, or None."""
        words = [self.name(w) for w in command.split()]
        with Writer(os.path.join(self.pool.mnt, 'busy'), self.rng) as writer:
            r = zpool(words[0], *[w for w in words[1:] if w[0] == '-'], self.pool.name,
                      *[w for w in words[1:] if w[0] != '-'], check=False)
        if (r.status == 0) != (want is None) or (want and want not in r.err):
            raise Failure(f'{command}, which should say {want}:\n{r}')
        if want is None:
            self.look(health)
        return f'{writer.count} files meanwhile'

    def run(self, steps):
        for command, want, *health in steps:
            if not self.report.check(f'life: {command}', self.step, command, want, *health):
                return


# What is refused is in tests/golden; here only what depends on what devices lack.
LIFE = [
    ('attach 0 1', None),
    ('offline 0', 'no valid replicas'),
    ('detach 0', 'no valid replicas'),
    ('offline 1', None, 'DEGRADED'),
    ('online 1', None),
    ('detach 1', None),
    ('attach 0 1', None),
    ('add mirror 2 3', None),
    ('attach 2 4', None),
    ('detach 3', None),
    ('add -f raidz1 3 5 6', None),
    ('replace 5 7', None),
    ('offline 5', None, 'DEGRADED'),
    ('detach 7', None, 'DEGRADED'),
    ('online 5', None),
    ('add -f 7', None),
    ('clear', None),
    ('reopen', None),
]


def life(lab, rng, report):
    pool = lab.pool('life', [SIZE] * 8, create=False)
    one = Life(pool, rng, report)
    zpool('create', '-o', rng.choice(['ashift=9', 'ashift=12']), '-m', pool.mnt, pool.name, pool.vdevs[0])
    fills.tree(pool.mnt, rng)
    one.run(LIFE[:9])
    report.check('life: offline -t 3', temporary, pool)
    one.run(LIFE[9:])
    report.check('life: resilver', resilver, one)
    pool.export()


def resilver(one):
    pool = one.pool
    pool.export()
    del os.environ[HOLD]
    pool.import_()
    zpool('wait', '-t', 'resilver', pool.name)
    os.environ[HOLD] = '0'
    text = zpool('status', pool.name).out
    if 'resilvered' not in text or 'with 0 errors' not in text or 'replacing' in text:
        raise Failure(text)
    one.look('ONLINE')


def temporary(pool):
    zpool('offline', '-t', pool.name, pool.vdevs[3])
    if pool.get('health') != 'DEGRADED':
        raise Failure(zpool('status', pool.name).out)
    pool.export()
    pool.import_()
    if pool.get('health') != 'ONLINE':
        raise Failure(zpool('status', pool.name).out)


def away(lab, rng):
    pool = lab.pool('away', [SIZE] * 3, create=False).create([], 'raidz1:3')
    fills.tree(pool.mnt, rng)
    hidden = pool.vdevs[1] + '.away'
    os.rename(pool.vdevs[1], hidden)
    zpool('reopen', pool.name)
    if 'UNAVAIL' not in zpool('status', pool.name).out:
        raise Failure(zpool('status', pool.name).out)
    fills.churn(pool.mnt, rng, 2)
    os.rename(hidden, pool.vdevs[1])
    zpool('reopen', pool.name)
    text = zpool('status', pool.name).out
    if pool.get('health') != 'ONLINE' or 'resilver' not in text:
        raise Failure(text)
    want = judge.manifest(pool.mnt)
    pool.export()
    if judge.ready():
        judge.zdb(pool.home, pool.name)
    pool.import_()
    judge.compare(judge.manifest(pool.mnt), want, 'the tree')
    pool.export()


def full(lab, rng):
    pool = lab.pool('full', [SIZE] * 2, create=False)
    small = lab.path('small')
    os.makedirs(small)
    run(['mount', '-t', 'tmpfs', '-o', 'size=12M', 'tmpfs', small])
    try:
        bad = os.path.join(small, 'bad.img')
        with open(bad, 'wb') as f:
            f.truncate(96 << 20)
        os.unlink(pool.vdevs[1])
        os.symlink(bad, pool.vdevs[1])
        pool.create(['-O', 'compression=off'], 'mirror:2')
        fills.big(pool.mnt, rng, 30)
        pool.sync()
        if 'FAULTED' not in zpool('status', pool.name).out:
            raise Failure(zpool('status', pool.name).out)
        run(['mount', '-o', 'remount,size=100M', small])
        zpool('clear', pool.name)
        text = zpool('status', pool.name).out
        if pool.get('health') != 'ONLINE' or 'resilver' not in text:
            raise Failure(text)
        fills.churn(pool.mnt, rng, 2)
        want = judge.manifest(pool.mnt)
        pool.export()
        pool.import_()
        judge.compare(judge.manifest(pool.mnt), want, 'the tree')
        pool.export()
    finally:
        subprocess.run(['umount', '-l', small], check=False)


KILLED = [('attach', 0, 1), ('add', '-f', 2), ('replace', 2, 3), ('detach', 1), ('offline', 1),
          ('online', 1), ('detach', 3)]


def kill(lab, rng):
    """Every command runs once, is killed at some moment, and may have happened or not."""
    pool = lab.pool('kill', [SIZE] * 4, create=False)
    happened = 0
    zpool('create', '-m', pool.mnt, pool.name, pool.vdevs[0])
    fills.tree(pool.mnt, rng)
    pool.sync()
    want = judge.manifest(pool.mnt)
    for verb, *words in KILLED * 2:
        options = [w for w in words if isinstance(w, str)]
        disks = [pool.vdevs[w] for w in words if not isinstance(w, str)]
        pool.pid()
        p = subprocess.Popen([os.path.join(BIN, 'zpool'), verb, *options, pool.name, *disks],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            p.wait(rng.random() * .15)
        except subprocess.TimeoutExpired:
            pass
        pool.kill()
        happened += p.wait() == 0
        pool.import_()
        judge.compare(judge.manifest(pool.mnt), want, f'the tree after {verb} was killed')
    pool.export()
    if judge.ready():
        judge.zdb(pool.home, pool.name)
    return f'{happened} of {2 * len(KILLED)} had happened'


# ---- The reference's kernel

GUEST = r'''
look() { # pool, whether something is to be resilvered, state
  P=$1
  zpool import -d /share/$P -N $P || { echo "@@ $P import"; return; }
  n=0
  while [ $2 = yes ] && ! zpool status $P | grep -q 'scan: resilvered .* with 0 errors'; do
    n=$((n + 1)); [ $n -lt 100 ] || { echo "@@ $P"; zpool status $P; return; }
    sleep 1
  done
  timeout 120 zpool wait -t resilver,replace $P
  timeout 200 zpool scrub -w $P
  zpool status $P | grep -q "state: $3" || { echo "@@ $P is not $3"; zpool status $P; }
  zpool status $P | grep -q 'scrub repaired 0B .* with 0 errors' || { echo "@@ $P"; zpool status -v $P; }
  zpool status $P | grep replacing && echo "@@ $P still replaces"
  zpool export $P
}
'''

# Name, layout, disks, commands, whether something is lacking then, state after a resilver.
LEFT = [
    ('attach', 'mirror:1', 2, ['attach 0 1'], 'yes', 'ONLINE'),
    ('wider', 'mirror:2', 3, ['attach 0 2'], 'yes', 'ONLINE'),
    ('detach', 'mirror:2', 2, ['detach 1'], 'no', 'ONLINE'),
    ('offline', 'raidz1:3', 3, ['offline 1'], 'no', 'DEGRADED'),
    ('online', 'raidz1:3', 3, ['offline 1', 'online 1'], 'yes', 'ONLINE'),
    ('add', 'mirror:2', 5, ['add -f raidz1 2 3 4'], 'no', 'ONLINE'),
    ('replace', 'raidz2:4', 5, ['replace 1 4'], 'yes', 'ONLINE'),
    ('single', 'mirror:1', 2, ['replace 0 1'], 'yes', 'ONLINE'),
    ('giveup', 'raidz1:3', 4, ['replace 1 3', 'detach 3'], 'no', 'ONLINE'),
]


def leave(lab, rng, name, layout, count, commands):
    pool = lab.pool(f'g{name}', [SIZE] * count, create=False)
    word, n = layout.split(':')
    zpool('create', '-m', pool.mnt, pool.name, *([word] if n != '1' else []), *pool.vdevs[:int(n)])
    fills.tree(pool.mnt, rng)
    pool.sync()
    for command in commands:
        words = [pool.vdevs[int(w)] if w.isdigit() else w for w in command.split()]
        options = [w for w in words[1:] if w[0] == '-']
        zpool(words[0], *options, pool.name, *[w for w in words[1:] if w[0] != '-'])
        fills.churn(pool.mnt, rng, 2)
        pool.sync()
    pool.want = judge.manifest(pool.mnt)
    pool.export()
    return pool


def take_back(pool):
    pool.import_()
    judge.compare(judge.manifest(pool.mnt), pool.want, 'the tree')
    pool.export()
    judge.zdb(pool.home, pool.name)


def guest(lab, rng, report):
    pools = []
    script = GUEST
    for name, layout, count, commands, lacking, state in LEFT:
        pool = leave(lab, rng, name, layout, count, commands)
        pools.append(pool)
        script += f'look {pool.name} {lacking} {state}\n'
    console = judge.guest(lab.dir, script, timeout=900)
    if '@@' in console:
        report.fail('guest', console)
        return
    for (name, *_), pool in zip(LEFT, pools):
        report.check(f'guest: {name}', take_back, pool)


def main():
    need_root()
    need_program()
    with_guest = '--guest' in sys.argv
    if with_guest:
        judge.need_judge()
    names = [a for a in sys.argv[1:] if a[0] != '-'] or ['life', 'away', 'full', 'kill']
    rng, report = random.Random(seed()), Report()
    with Lab('devices') as lab:
        if 'kill' in names:
            report.check('kill', kill, lab, rng)
        os.environ[HOLD] = '0'
        if 'life' in names:
            life(lab, rng, report)
        for name, function in (('away', away), ('full', full)):
            if name in names:
                report.check(name, function, lab, rng)
        if with_guest:
            guest(lab, rng, report)
    report.finish()


if __name__ == '__main__':
    main()
