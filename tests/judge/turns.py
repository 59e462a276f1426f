#!/usr/bin/env python3
"""turns.py [TURNS [STEPS]]: the reference's kernel and this program take turns on one pool with random dataset
operations (tests/system/datasets.py). After each turn zdb and check.py look at it, and both sides must print the
same space properties of everything in it. In the end every snapshot has the tree that it had when it was first
seen. `turns.py --work POOL SEED STEPS FIRST` is one turn, on the side where it is started."""
import os
import random
import shutil
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'lib'), os.path.join(HERE, '..', 'system')]
import judge
from datasets import World
from lab import TOP, Failure, Lab, Report, need_program, need_root, seed, wait_until, zfs

PROPS = ('used,available,referenced,usedbysnapshots,usedbydataset,usedbychildren,usedbyrefreservation,'
         'compressratio,refcompressratio,logicalused,logicalreferenced,written,quota,refquota,reservation,'
         'refreservation,userrefs,defer_destroy,origin,clones,guid,createtxg')

GUEST = '''
set -e
export TARN_BIN=/usr/sbin
list() { zpool import -N -o readonly=on -d /share POOL; zfs get -Hp -t all -r -o name,property,value PROPS POOL >"$1"; zpool export POOL; }
for n in TURNS; do
  while [ ! -e /share/go.$n ]; do sleep 0.2; done
  echo 3 >/proc/sys/vm/drop_caches
  if list /share/before.$n && zpool import -d /share POOL &&
     python3 /share/tests/judge/turns.py --work POOL "$(cat /share/go.$n)" && zpool sync POOL && zpool wait -t free POOL &&
     zpool export POOL && list /share/after.$n; then :; else touch /share/bad.$n; fi
  sync
  touch /share/done.$n
done
'''


class Side:
    """What World wants to know of a pool."""

    def __init__(self, name):
        self.name = name


def work(name, value, steps, first):
    world = World(Side(name), random.Random(value))
    world.count = first
    for _ in range(steps):
        world.step()


def listed(pool):
    pool.import_('-N', '-o', 'readonly=on')
    out = zfs('get', '-Hp', '-t', 'all', '-r', '-o', 'name,property,value', PROPS, pool.name).out
    pool.export()
    return out


def same(ours, path):
    with open(path) as f:
        theirs = f.read()
    if sorted(ours.splitlines()) != sorted(theirs.splitlines()):
        odd = set(ours.splitlines()) ^ set(theirs.splitlines())
        raise Failure(f'the two sides print (ours and theirs: {path}):\n' +
                      '\n'.join(f'{"ours  " if line in ours else "theirs"} {line}' for line in sorted(odd)[:20]))


def trees(pool, known):
    """The trees of all snapshots; those seen before must be what they were."""
    for line in zfs('list', '-Hp', '-t', 'snapshot', '-o', 'name,guid', '-r', pool.name).out.splitlines():
        name, guid = line.split('\t')
        fs, snap = name.split('@')
        top = zfs('get', '-H', '-o', 'value', 'mountpoint', fs).out.strip()
        if not os.path.isdir(f'{top}/.zfs/snapshot/{snap}') or not os.path.ismount(top):
            continue
        tree = judge.manifest(f'{top}/.zfs/snapshot/{snap}')
        if known.setdefault(guid, tree) != tree:
            raise Failure(f'{name} is not what it was')


def kernel_turn(pool, n, argument):
    with open(os.path.join(pool.home, 'go.tmp'), 'w') as f:
        f.write(argument)
    os.rename(os.path.join(pool.home, 'go.tmp'), os.path.join(pool.home, f'go.{n}'))
    wait_until(lambda: os.path.exists(os.path.join(pool.home, f'done.{n}')), f'turn {n} of the kernel', 300)
    if os.path.exists(os.path.join(pool.home, f'bad.{n}')):
        raise Failure(f'turn {n} of the kernel failed')


def take_turns(pool, turns, steps, value):
    known = {}
    for n in range(turns):
        pool.import_()
        work(pool.name, value + 2 * n, steps, 10000 * n)
        trees(pool, known)
        pool.export()
        judge.verdict(pool)
        ours = listed(pool)
        kernel_turn(pool, n, f'{value + 2 * n + 1} {steps} {10000 * n + 5000}')
        same(ours, os.path.join(pool.home, f'before.{n}'))
        judge.verdict(pool)
        same(listed(pool), os.path.join(pool.home, f'after.{n}'))
    pool.import_()
    trees(pool, known)
    pool.export()
    return f'{len(known)} snapshots'


def main():
    if sys.argv[1:2] == ['--work']:
        name, rest = sys.argv[2], ' '.join(sys.argv[3:]).split()
        work(name, *[int(a) for a in rest])
        return
    need_root()
    need_program()
    judge.need_judge()
    turns, steps = ([int(a) for a in sys.argv[1:]] + [20, 20][len(sys.argv) - 1:])[:2]
    report, value = Report(), seed()
    with Lab('turns') as lab:
        os.makedirs(lab.path('run'), mode=0o700)
        os.environ['TARN_RUN_DIR'] = lab.path('run')
        pool = lab.pool('turns', ['512M'], ['-o', 'ashift=12'])
        pool.export()
        for part in ('lib', 'judge', 'system'):
            shutil.copytree(os.path.join(TOP, 'tests', part), os.path.join(pool.home, 'tests', part))
        script = GUEST.replace('TURNS', ' '.join(map(str, range(turns)))).replace('POOL', pool.name).replace('PROPS', PROPS)
        said = []

        def guest():
            try:
                said.append(judge.guest(pool.home, script, timeout=120 + 120 * turns))
            except Failure as e:
                said.append(str(e))
        thread = threading.Thread(target=guest, daemon=True)
        thread.start()
        if not report.check(f'{turns} turns each', take_turns, pool, turns, steps, value):
            for n in range(turns): # let the guest end
                for mark in ('go', 'bad', 'done'):
                    open(os.path.join(pool.home, f'{mark}.{n}'), 'a').close()
        thread.join(120 + 120 * turns)
        if report.failed:
            print('\n'.join(said)[-3000:])
    report.finish()


if __name__ == '__main__':
    main()
