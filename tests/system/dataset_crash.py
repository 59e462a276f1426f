#!/usr/bin/env python3
"""dataset_crash.py [ROUNDS]: the pool process is killed in the middle of each kind of dataset operation. After the
next import the operation has happened or it has not, and what the command said was done is done. In the end
both judges look at the pool."""
import difflib
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import BIN, Failure, Lab, Report, need_program, need_root, seed, zfs

# What is run with {t} for the place and {n} for a number, after what has been prepared.
KINDS = {
    'create': ([], 'create -p {t}/new/a/b'),
    'snapshot': ([], 'snapshot -r {t}@x'),
    'clone': ([], 'clone {t}/a@s {t}/clone'),
    'promote': (['clone {t}/a@s {t}/clone'], 'promote {t}/clone'),
    'rename': ([], 'rename {t}/a {t}/b/moved'),
    'rename of a snapshot': ([], 'rename -r {t}@s @other'),
    'rollback': ([], 'rollback -r {t}/a@s'),
    'destroy of a snapshot': ([], 'destroy -r {t}@s'),
    'destroy of a range': ([], 'destroy {t}/a@s%t'),
    'destroy': ([], 'destroy -r {t}/a'),
    'destroy with clones': (['clone {t}/a@s {t}/clone'], 'destroy -R {t}/a'),
    'hold': ([], 'hold -r tag {t}@s'),
    'release': (['hold -r tag {t}@s'], 'release -r tag {t}@s'),
    'bookmark': ([], 'bookmark {t}/a@s {t}/a#m'),
    'destroy of a bookmark': (['bookmark {t}/a@s {t}/a#m'], 'destroy {t}/a#m'),
    'set': ([], 'set a:b=c quota=900M compression=zstd {t}/a'),
    'inherit': (['set compression=off {t}/a'], 'inherit -r compression {t}/a'),
    'set of a limit': ([], 'set filesystem_limit=10 {t}'),
    'userquota': ([], 'set userquota@1=1G {t}/a'),
    'allow': ([], 'allow nobody create,mount,snapshot {t}/a'),
    'unallow': (['allow nobody create,mount {t}/a'], 'unallow nobody {t}/a'),
}
# One call that is several operations may stop between them.
IN_STEPS = {'create', 'destroy', 'destroy with clones', 'inherit', 'rollback'}
SHOWN = 'origin,quota,compression,userrefs,a:b,filesystem_limit,userquota@1,mountpoint'


def state(top):
    """Everything about the datasets of a place that an operation changes."""
    out = zfs('get', '-Hp', '-t', 'all', '-r', '-o', 'name,property,value', SHOWN, top).out
    for name in zfs('list', '-H', '-t', 'filesystem', '-r', '-o', 'name', top).out.split():
        out += zfs('allow', name).out
        place = zfs('get', '-H', '-o', 'value', 'mountpoint', name).out.strip()
        if os.path.ismount(place):
            out += ' '.join(sorted(e.name for e in os.scandir(place) if e.is_file())) + '\n'
    return out


def prepare(pool, top, before):
    for name in ('', '/a', '/a/in', '/b'):
        zfs('create', f'{top}{name}')
    place = f'{pool.mnt}{top[len(pool.name):]}'
    for i in range(40):
        with open(f'{place}/a/{i}', 'wb') as f:
            f.write(os.urandom(30000))
    zfs('snapshot', '-r', f'{top}@s')
    for i in range(20):
        os.unlink(f'{place}/a/{i}')
    zfs('snapshot', '-r', f'{top}@t')
    for command in before:
        zfs(*command.format(t=top).split())
    pool.sync()


def difference(now, should):
    return '\n'.join(difflib.unified_diff(should.splitlines(), now.splitlines(), 'should be', 'is', n=0))


def twin(pool, rng, kind):
    """The same is done twice: on one place undisturbed, to know what it leads to, on the other with a kill."""
    before, command = KINDS[kind]
    good, top = f'{pool.name}/g', f'{pool.name}/k' # as long as each other
    prepare(pool, good, before)
    prepare(pool, top, before)
    old = state(top)
    start = time.monotonic()
    zfs(*command.format(t=good).split())
    took = time.monotonic() - start
    new = state(good).replace(good, top).replace(f'{pool.mnt}/g', f'{pool.mnt}/k')
    pool.sync()
    pid = pool.pid()
    with subprocess.Popen([os.path.join(BIN, 'zfs'), *command.format(t=top).split()], stderr=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL) as run:
        time.sleep(rng.random() * 1.3 * took)
        pool.last_pid = pid
        pool.kill()
        status = run.wait()
    pool.import_()
    now = state(top)
    if now != new and (now != old or status == 0) and (kind not in IN_STEPS or status == 0):
        raise Failure(f'{kind} (status {status}) is half done:\n{difference(now, old)}\nor\n{difference(now, new)}')
    for place in (good, top):
        # A clone that was promoted is above its origin.
        for line in zfs('list', '-H', '-r', '-o', 'name,origin', place).out.splitlines()[::-1]:
            if not line.endswith('-') and kind == 'promote':
                zfs('promote', line.split('\t')[0], check=False)
        for snap in zfs('list', '-H', '-t', 'snapshot', '-r', '-o', 'name', place).out.split():
            zfs('release', 'tag', snap, check=False)
        zfs('destroy', '-R', place)
    return now == new


def kind_of_operation(pool, rng, kind, rounds):
    done = sum(twin(pool, rng, kind) for _ in range(rounds))
    return f'{done} of {rounds} had happened'


def main():
    need_root()
    need_program()
    rounds = int((sys.argv[1:] + ['1'])[0])
    report, rng = Report(), random.Random(seed())
    with Lab('dataset-crash') as lab:
        os.makedirs(lab.path('run'), mode=0o700)
        os.environ['TARN_RUN_DIR'] = lab.path('run')
        pool = lab.pool('crash', ['1G'])
        for kind in KINDS:
            if not report.check(kind, kind_of_operation, pool, rng, kind, rounds):
                break
        if not report.failed:
            report.check('export', pool.export)
            report.check('judge', judge.verdict, pool)
    report.finish()


if __name__ == '__main__':
    main()
