#!/usr/bin/env python3
"""datasets.py [STEPS [EVERY]] [--guest]: random dataset operations (snapshots, clones, promotion, renames,
holds, bookmarks, quotas, destruction in all forms) through the commands; every so many steps the pool is
exported and both judges look at it. With --guest the reference's kernel takes it apart in the end."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import Failure, Lab, Report, need_root, seed, zfs

TAGS = ['keep', 'backup', 'third']


class World:
    """What there is is asked for anew before each step; the program may refuse what makes no sense, but
    only with a sentence."""

    def __init__(self, pool, rng):
        self.pool, self.rng, self.count, self.done = pool, rng, 0, {}

    def names(self):
        out = zfs('list', '-H', '-t', 'all', '-o', 'name', '-r', self.pool.name).out.splitlines()
        self.fs = [n for n in out if '@' not in n and '#' not in n]
        self.snaps = [n for n in out if '@' in n]
        self.marks = [n for n in out if '#' in n]

    def new(self, kind):
        self.count += 1
        return f'{kind}{self.count}'

    def pick(self, rows):
        return self.rng.choice(rows) if rows else None

    def do(self, *args):
        if None in args:
            return
        r = zfs(*args, check=False)
        if r.status not in (0, 1, 2, 255) or (r.status != 0 and not r.err.strip()):
            raise Failure(f'an end without a sentence:\n{r}')
        if 'rror' in r.err and 'I/O' in r.err:
            raise Failure(f'{r}')
        good = self.done.setdefault(args[0], [0, 0])
        good[r.status != 0] += 1

    # ---- Operations ----

    def create(self):
        if len(self.fs) < 12:
            self.do('create', f'{self.pick(self.fs)}/{self.new("f")}')

    def write(self):
        fs = self.pick(self.fs)
        top = zfs('get', '-H', '-o', 'value', 'mountpoint', fs).out.strip()
        if not os.path.ismount(top): # or a rollback above it took the directory away
            return
        for _ in range(self.rng.randrange(1, 5)):
            path = f'{top}/d{self.rng.randrange(6)}'
            try:
                if self.rng.random() < .2 and os.path.exists(path):
                    os.unlink(path)
                    continue
                with open(path, 'r+b' if os.path.exists(path) else 'wb') as f:
                    f.seek(self.rng.randrange(8) << 16)
                    f.write(self.rng.randbytes(self.rng.randrange(1, 200000)))
            except OSError as e:
                if e.errno not in (28, 122): # ENOSPC, EDQUOT
                    raise

    def snapshot(self):
        options = ['-r'] if self.rng.random() < .2 else []
        self.do('snapshot', *options, f'{self.pick(self.fs)}@{self.new("s")}')

    def clone(self):
        if len(self.fs) < 12:
            self.do('clone', self.pick(self.snaps), f'{self.pick(self.fs)}/{self.new("c")}')

    def promote(self):
        origins = [line.split('\t') for line in
                   zfs('list', '-H', '-o', 'name,origin', '-r', self.pool.name).out.splitlines()]
        self.do('promote', self.pick([n for n, o in origins if o != '-']))

    def rename(self):
        what = self.pick(self.fs[1:])
        self.do('rename', what, f'{self.pick(self.fs)}/{self.new("r")}')

    def rename_snapshot(self):
        snap = self.pick(self.snaps)
        if snap:
            self.do('rename', snap, f'{snap.split("@")[0]}@{self.new("n")}')

    def hold(self):
        options = ['-r'] if self.rng.random() < .2 else []
        self.do('hold', *options, self.pick(TAGS), self.pick(self.snaps))

    def release(self):
        held = [n for n in self.snaps
                if zfs('get', '-H', '-o', 'value', 'userrefs', n).out.strip() not in '0-']
        snap = self.pick(held)
        rows = zfs('holds', '-H', snap).out.splitlines() if snap else []
        for row in rows[:1 + self.rng.randrange(3)]:
            self.do('release', row.split('\t')[1], snap)

    def bookmark(self):
        source = self.pick(self.snaps if self.rng.random() < .8 else self.marks)
        if source:
            fs = source.replace('#', '@').split('@')[0]
            self.do('bookmark', source, f'{fs}#{self.new("b")}')

    def quota(self):
        prop = self.pick(['quota', 'refquota', 'reservation', 'refreservation'])
        self.do('set', f'{prop}={self.pick(["none", "3M", "20M", "60M"])}', self.pick(self.fs[1:]))

    def rollback(self):
        options = self.pick([[], ['-r'], ['-R']])
        self.do('rollback', *options, self.pick(self.snaps))

    def destroy_snapshot(self):
        snap = self.pick(self.snaps)
        if not snap:
            return
        fs, own = snap.split('@')[0], [n.split('@')[1] for n in self.snaps]
        spec = snap.split('@')[1]
        if self.rng.random() < .4:
            spec += self.pick([',', '%']) + self.pick(own)
        options = self.pick([[], [], ['-d'], ['-r'], ['-R'], ['-n', '-v']])
        self.do('destroy', *options, f'{fs}@{spec}')

    def destroy_bookmark(self):
        self.do('destroy', self.pick(self.marks))

    def destroy(self):
        self.do('destroy', *self.pick([[], [], ['-r'], ['-R']]), self.pick(self.fs[1:]))

    OPERATIONS = [(create, 8), (write, 24), (snapshot, 14), (clone, 7), (promote, 5), (rename, 4),
                  (rename_snapshot, 2), (hold, 7), (release, 6), (bookmark, 9), (quota, 4), (rollback, 5),
                  (destroy_snapshot, 9), (destroy_bookmark, 3), (destroy, 2)]

    def step(self):
        self.names()
        operations, weights = zip(*self.OPERATIONS)
        self.rng.choices(operations, weights)[0](self)


GUEST = '''
set -e
zpool import -d /share {pool}
zpool scrub -w {pool}
zpool status -x {pool} | grep -q healthy
zfs list -H -t snapshot -o name | while read s; do
    zfs holds -H "$s" | cut -f2 | while read tag; do zfs release "$tag" "$s"; done
done
zfs list -H -t bookmark -o name | while read b; do zfs get -H written#"${{b#*#}}" "${{b%#*}}"; done
for i in 1 2 3 4 5 6; do # a clone above its origin is parted from it by promotion
    zfs list -H -o name -d 1 {pool} | tail -n +2 | while read f; do zfs destroy -R "$f" || true; done
    zfs list -H -o name,origin -r {pool} | grep -v -- '-$' | tail -1 | cut -f1 | while read f; do
        zfs promote "$f" || true; done
done
zfs destroy -r {pool} || true
zfs list -H -t all -o name
zpool sync {pool}
zpool wait -t free {pool}
zpool export {pool}
'''


def run_steps(pool, steps, every):
    world = World(pool, random.Random(seed()))
    for i in range(1, steps + 1):
        world.step()
        if i % every == 0 or i == steps:
            pool.export()
            judge.verdict(pool)
            pool.import_()
    print(', '.join(f'{k} {a}+{b}' for k, (a, b) in sorted(world.done.items())), '(done+refused)')


def take_apart(pool):
    pool.export()
    judge.guest(pool.home, GUEST.format(pool=pool.name))
    judge.verdict(pool)


def main():
    need_root()
    numbers = [int(a) for a in sys.argv[1:] if not a.startswith('-')]
    report = Report()
    with Lab('datasets') as lab:
        # A run folder of its own: the pools of others on this machine are not asked.
        os.makedirs(lab.path('run'), mode=0o700)
        os.environ['TARN_RUN_DIR'] = lab.path('run')
        pool = lab.pool('holds', ['512M'], ['-o', 'ashift=12'])
        report.check('random steps', run_steps, pool, (numbers + [80])[0], (numbers + [80, 20])[1])
        if '--guest' in sys.argv:
            judge.need_judge()
            report.check("the reference's kernel destroys all", take_apart, pool)
        else:
            zfs('destroy', '-R', pool.name, check=False) # not if a clone is above its origin
            report.check('export', pool.export)
            report.check('judge', judge.verdict, pool)
    report.finish()


if __name__ == '__main__':
    main()
