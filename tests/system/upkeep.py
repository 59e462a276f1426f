#!/usr/bin/env python3
"""upkeep.py [--guest] [NAME...]: telling devices what nobody uses (trim), writing over it (initialize).

  layouts    on each layout: what is free is written over, then given back; no file is touched, and the
             reference's zdb agrees about the space
  busy       the same while files are written until the pool is full and removed again
  goes_on    suspended, exported, killed: it goes on where it was
  away       a device that is away is done when it is back, the others do not wait
  freed      autotrim gives back what is removed

With --guest the reference shows and resumes what Tarn has left, and Tarn what the reference has."""
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import Failure, Lab, Report, need_program, need_root, run, seed, wait_until, zpool

MIB = 1 << 20
PATTERN = (0xdeadbeefdeadbeee).to_bytes(8, 'little')
LAYOUTS = [('disk', '', 1), ('stripe', '', 3), ('mirror', 'mirror:2', 2), ('raidz', 'raidz1:3', 3),
           ('raidz2', 'raidz2:5', 5)]


def on_disk(path):
    """Bytes of an image that are really there."""
    return os.stat(path).st_blocks * 512


def written_over(path):
    """Bytes of an image that are nothing but the pattern, by blocks of 4 KiB."""
    block, n = PATTERN * 512, 0
    with open(path, 'rb') as f:
        while data := f.read(4 * MIB):
            n += sum(data[i:i + 4096] == block for i in range(0, len(data), 4096))
    return n * 4096


def not_written(path):
    """[start, end] of what is all zeros in an image between its labels, in MiB, by whole MiB."""
    runs, zeros, at = [], bytes(MIB), 0
    with open(path, 'rb') as f:
        while data := f.read(MIB):
            if data == zeros and at >= 4 and runs and runs[-1][1] == at:
                runs[-1][1] += 1
            elif data == zeros and at >= 4:
                runs.append([at, at + 1])
            at += 1
    return runs


def fill(pool, rng, mib):
    for i in range(mib):
        with open(os.path.join(pool.mnt, f'f{rng.randrange(10**9)}'), 'wb') as f:
            f.write(rng.randbytes(MIB - rng.randrange(5000)))
    pool.sync()


def states(pool, option='-t'):
    """What status says in the last brackets of each device's line."""
    text = zpool('status', option, pool.name).out
    return [m[1] for m in re.finditer(r'disk\d+\.img +\S+ +\d+ +\d+ +\d+.*\((.*)\)$', text, re.M)]


def all_right(pool, want):
    zpool('scrub', '-w', pool.name)
    text = zpool('status', pool.name).out
    if 'repaired 0B' not in text or 'with 0 errors' not in text:
        raise Failure(text)
    judge.compare(judge.manifest(pool.mnt), want, 'the tree')


def new_pool(lab, layout, n, size='96M'):
    pool = lab.pool('upkeep', [size] * n, create=False)
    return pool.create(layout=layout)


def layout(lab, rng, word, n):
    pool = new_pool(lab, word, n)
    fill(pool, rng, 20)
    want = judge.manifest(pool.mnt)
    zpool('initialize', '-w', pool.name)
    for path in pool.vdevs:
        got = written_over(path)
        if got < 40 * MIB:
            raise Failure(f'{path}: only {got} bytes are written over\n' + zpool('status', '-i', pool.name).out)
    if not all(s.startswith('100% initialized, completed at') for s in states(pool, '-i')):
        raise Failure(f'{states(pool, "-i")}')
    all_right(pool, want)
    full = [on_disk(p) for p in pool.vdevs]
    zpool('trim', '-w', pool.name)
    for path, before in zip(pool.vdevs, full):
        if on_disk(path) > before - 40 * MIB:
            raise Failure(f'{path}: {before} bytes before trim, {on_disk(path)} after')
    if not all(s.startswith('100% trimmed, completed at') for s in states(pool)):
        raise Failure(f'{states(pool)}')
    all_right(pool, want)
    pool.export()
    (judge.verdict if word == 'raidz1:3' else lambda p: judge.recheck(p.vdevs))(pool)


def busy(lab, rng):
    """Free space is lent to the work while it is wanted by others."""
    pool = new_pool(lab, 'raidz1:3', 3)
    for turn in range(4):
        kind = ('initialize', 'trim')[turn % 2]
        zpool(kind, pool.name)
        names = []
        try:
            while True:
                name = os.path.join(pool.mnt, f'b{len(names)}')
                with open(name, 'wb') as f:
                    names.append(name)
                    f.write(rng.randbytes(rng.randrange(2 * MIB)))
        except OSError as e:
            if e.errno != 28:
                raise
        for name in names[::2]:
            os.unlink(name)
        zpool('wait', '-t', kind, pool.name)
        want = judge.manifest(pool.mnt)
        pool.sync()
        all_right(pool, want)
        run(['rm', '-rf', *names])
    pool.export()
    judge.verdict(pool)


def position(pool, option):
    m = re.match(r'(\d+)%', states(pool, option)[0])
    if not m:
        raise Failure(f'{states(pool, option)}')
    return int(m[1])


def goes_on(lab, rng):
    pool = new_pool(lab, 'mirror:2', 2)
    fill(pool, rng, 10)
    want = judge.manifest(pool.mnt)
    zpool('trim', '-r', '20M', pool.name)
    wait_until(lambda: position(pool, '-t') >= 20, 'a fifth to be trimmed')
    if 'currently trimming' not in zpool('trim', pool.name, check=False).err:
        raise Failure('a second order is taken')
    zpool('trim', '-s', pool.name)
    at = position(pool, '-t')
    if not all('suspended' in s for s in states(pool)) or at >= 100:
        raise Failure(f'{states(pool)}')
    pool.export()
    pool.import_()
    if abs(position(pool, '-t') - at) > 1 or not all('suspended' in s for s in states(pool)):
        raise Failure(f'{at}%, then {states(pool)}')
    zpool('trim', '-r', '10M', pool.name)
    pool.sync()
    pool.kill()
    pool.import_()
    if position(pool, '-t') < at - 1:
        raise Failure(f'{at}% before it was killed, then {states(pool)}')
    wait_until(lambda: position(pool, '-t') == 100, 'it to come to its end', 60)
    zpool('trim', '-r', '1M', pool.name)
    zpool('trim', '-c', pool.name)
    if states(pool) != ['untrimmed'] * 2:
        raise Failure(f'{states(pool)}')
    all_right(pool, want)


def away(lab, rng):
    pool = new_pool(lab, 'mirror:2', 2)
    fill(pool, rng, 10)
    zpool('trim', '-r', '20M', pool.name)
    zpool('offline', pool.name, pool.vdevs[1])
    wait_until(lambda: states(pool)[0].startswith('100%'), 'the first device')
    if not states(pool)[1].split(',')[1].strip().startswith('started'):
        raise Failure(f'{states(pool)}')
    zpool('online', pool.name, pool.vdevs[1])
    wait_until(lambda: states(pool)[1].startswith('100%'), 'the second device')
    zpool('wait', '-t', 'resilver', pool.name)
    all_right(pool, judge.manifest(pool.mnt))


def freed(lab, rng):
    pool = new_pool(lab, 'raidz1:3', 3)
    zpool('set', 'autotrim=on', pool.name)
    fill(pool, rng, 5)
    want = judge.manifest(pool.mnt)
    for i in range(60):
        with open(os.path.join(pool.mnt, f'gone{i}'), 'wb') as f:
            f.write(rng.randbytes(MIB))
    pool.sync()
    full = [on_disk(p) for p in pool.vdevs]
    for i in range(60):
        os.unlink(os.path.join(pool.mnt, f'gone{i}'))
    for i in range(80):
        os.utime(pool.mnt, (i, i))
        pool.sync()
        if all(on_disk(p) < b - 20 * MIB for p, b in zip(pool.vdevs, full)):
            break
    else:
        raise Failure(f'{full} bytes before, {[on_disk(p) for p in pool.vdevs]} after')
    os.utime(pool.mnt, (0, 0))
    got = judge.manifest(pool.mnt)
    judge.compare(got, want, 'the tree', ignore=('mtime', 'ctime', 'atime'))


GUEST = '''
zpool import -d /share/{a} {a} || exit 1
zpool status -i {a}; zpool status -t {a}
zpool trim -w {a} && zpool scrub -w {a} && zpool status -t {a} && zpool export {a}
zpool create {b} /share/{b}/disk1.img
zpool initialize {b}; zpool initialize -s {b} || exit 1
zpool status -i {b}; zpool export {b}
'''


def guest(lab, rng):
    ours = new_pool(lab, 'mirror:2', 2)
    fill(ours, rng, 10)
    want = judge.manifest(ours.mnt)
    zpool('initialize', '-w', ours.name)
    zpool('trim', '-r', '20M', ours.name)
    wait_until(lambda: position(ours, '-t') >= 20, 'a fifth to be trimmed')
    zpool('trim', '-s', ours.name)
    at = position(ours, '-t')
    ours.export()
    theirs = lab.pool('upkeep', ['4000M'], create=False)
    text = judge.guest(lab.dir, GUEST.format(a=ours.name, b=theirs.name), timeout=600)
    if text.count('100% initialized, completed') != 2 or text.count('100% trimmed, completed') != 2 or \
            'repaired 0B' not in text:
        raise Failure(text)
    seen = [int(n) for n in re.findall(r'(\d+)% trimmed, suspended', text)]
    if len(seen) != 2 or abs(seen[0] - at) > 12:
        raise Failure(f'{at}% are trimmed; the reference says {text}')
    left = int(re.search(r'(\d+)% initialized, suspended', text)[1])
    ours.import_()
    all_right(ours, want)
    theirs.import_()
    if abs(position(theirs, '-i') - left) > 12:
        raise Failure(f'the reference says {left}%, here it is {states(theirs, "-i")}')
    zpool('initialize', '-w', theirs.name, timeout=300)
    gaps = not_written(theirs.vdevs[0])
    if len(gaps) != 1:  # what is behind the last metaslab
        raise Failure(f'not written over: {gaps}')


def main():
    need_root()
    need_program()
    with_guest = '--guest' in sys.argv
    names = [a for a in sys.argv[1:] if a[0] != '-'] or ['layouts', 'busy', 'goes_on', 'away', 'freed']
    rng, report = random.Random(seed()), Report()
    with Lab('upkeep') as lab:
        for name, word, n in LAYOUTS if 'layouts' in names else ():
            report.check(name, layout, lab, rng, word, n)
        for function in (busy, goes_on, away, freed):
            if function.__name__ in names:
                report.check(function.__name__, function, lab, rng)
        if with_guest:
            judge.need_judge()
            report.check('guest', guest, lab, rng)
    report.finish()


if __name__ == '__main__':
    main()
