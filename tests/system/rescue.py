#!/usr/bin/env python3
"""rescue.py [NAME...]: which state of a pool the offline tools show. Intent logs replayed in memory give the
tree that the reference's kernel had after replaying them; with their keys encrypted datasets equal
their manifest; checkpoints, destroyed pools, and pools whose newest state is damaged. The images stay
as they were. NAME: some of the checks."""
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import Failure, Lab, Pool, Report, need_program, need_root, need_tools, run
from tools import TARN, Fixture, rows, tarn

REPLAY = '--replay-in-memory'


def expect(r, status, *words):
    if r.status != status or any(w not in r.err for w in words):
        raise Failure(f'status {status} and {words} were expected:\n{r}')


# ---- Intent logs

def without_replay_times(got, want):
    """What a replay changes without the log saying when has the time of the replay: with the reference
    that is the newest second of its manifest."""
    newest = max(e['mtime_ns'] for e in want.values()) // 10**9
    stamped = [p for p, e in want.items() if e['mtime_ns'] // 10**9 == newest]
    for path in stamped:
        want[path].pop('mtime_ns')
        if path in got:
            got[path].pop('mtime_ns')
    return len(stamped)


def zil(report, lab):
    fixture = Fixture(lab, 'zil')
    top = f'{fixture.home}:zil/fs'
    manifest = os.path.join(fixture.home, 'manifest-after-replay.jsonl')

    def last_txg():
        """Without the option: what the last txg has, and a note that there is more."""
        r = tarn('ls', '-A', top)
        if r.out.split() != ['before', 'src']:
            raise Failure(str(r))
        expect(r, 0, 'note: zil/fs has an intent log with 98 changes')

    def extracted():
        want = judge.read_manifest(manifest)
        fixture.fresh()
        r = tarn('extract', '-R', REPLAY, f'{fixture.home}:zil', fixture.scratch)
        expect(r, 0)
        if r.err:
            raise Failure(str(r))
        got = judge.manifest(fixture.scratch)
        for tree in got, want:          # this list's mask is not the mode's: a folder has no such
            for name in 'fs/small', 'fs/hard':
                tree[name]['xattr'].pop('system.posix_acl_access')
        stamped = without_replay_times(got, want)
        judge.compare(got, want, manifest)
        return f'{len(want)} files, {stamped} of them with the time of a replay'

    def mounted():
        want = {p[3:]: {**e, 'path': p[3:]} for p, e in judge.read_manifest(manifest).items() if p != 'fs'}
        point = lab.path('mnt')
        os.makedirs(point, exist_ok=True)
        run([TARN, 'mount', '--read-only', REPLAY, top, point])
        try:
            got = judge.manifest(point)
        finally:
            run(['umount', point])
        without_replay_times(got, want)
        judge.compare(got, want, manifest)
        return f'{len(want)} files'

    def repeated():
        """Two arguments in one dataset, and two runs, show the same."""
        once = tarn('ls', '-lRA', '--json', REPLAY, top, top)
        if once.out != tarn('ls', '-lRA', '--json', REPLAY, top, top).out:
            raise Failure('two runs differ')
        names = [r['path'] for r in json.loads(once.out)['rows']]
        if names[:len(names) // 2] != names[len(names) // 2:]:
            raise Failure(f'the second time there is something else: {names}')

    def compared():
        """Two pools: each has its note, also when their datasets have the same number."""
        other = lab.path('other')
        shutil.copytree(fixture.home, other)
        try:
            r = tarn('diff', top, f'{other}:zil/fs')
        finally:
            shutil.rmtree(other)
        if r.err.count('note: zil/fs has an intent log with 98 changes') != 2:
            raise Failure(str(r))

    def refused():
        for command in ('verify', f'{fixture.home}:zil'), ('inspect', 'mos', f'{fixture.home}:zil'):
            expect(tarn(*command, REPLAY, check=False), 2, 'shows what is on disk')

    def imported():
        pool = Pool(lab, 'zil', fixture.home, fixture.images)
        lab.pools.append(pool)
        pool.import_('-o', 'readonly=on', '-R', pool.mnt)
        try:
            top = run(['find', pool.mnt, '-name', 'before']).out.strip()
            if not top or sorted(os.listdir(os.path.dirname(top))) != ['before', 'src']:
                raise Failure(f'the last txg is not what {pool.mnt} shows')
        finally:
            pool.export()

    report.check('zil: the last txg', last_txg)
    report.check('zil: extracted', extracted)
    report.check('zil: repeated', repeated)
    report.check('zil: compared', compared)
    report.check('zil: what shows the disk', refused)
    if os.access('/dev/fuse', os.W_OK):
        report.check('zil: mounted', mounted)
        report.check('zil: imported read-only', imported)
    report.check('zil: unchanged', fixture.unchanged)


# ---- Keys

def keys(report, lab):
    fixture = Fixture(lab, 'crypt')
    top = f'{fixture.home}:crypt'
    passphrase, raw = lab.path('passphrase'), os.path.join(fixture.home, 'raw.key')
    with open(passphrase, 'w') as f:
        f.write('correct horse\n')

    def everything():
        path = os.path.join(fixture.home, 'manifest.jsonl')
        want = judge.read_manifest(path)
        got = fixture.extracted('crypt', ['-R', '--key-file', raw, f'--key-location=file://{passphrase}'])
        judge.compare(got, want, path)
        return f'{len(want)} files'

    def none():
        """Without keys what is not encrypted comes out, the rest is named."""
        expect(tarn('ls', f'{top}/pass', check=False), 1, 'it is encrypted', '--key-file')
        fixture.fresh()
        expect(tarn('extract', '-R', top, fixture.scratch, check=False), 1, 'crypt/pass', 'crypt/raw')
        if not os.path.isdir(os.path.join(fixture.scratch, 'pass')):
            raise Failure('the pool itself did not come out')

    def wrong():
        expect(tarn('ls', '--key-file', raw, f'{top}/pass', check=False), 1, 'Incorrect key provided')
        expect(tarn('ls', '--key-file', passphrase, f'{top}/raw', check=False), 1, 'Raw key too short')
        expect(tarn('ls', '--key-file', '/none', f'{top}/raw', check=False), 1,
               'Failed to open key material file')
        expect(tarn('ls', '--key-location', 'nowhere', f'{top}/raw', check=False), 2, 'nowhere')

    def prompt():
        """keylocation=prompt, with standard input no terminal: the key is a line of it."""
        for option in '--load-keys', '--key-location=prompt':
            with open(passphrase) as f:
                r = tarn('ls', option, f'{top}/pass', stdin=f)
            if 'child' not in r.out:
                raise Failure(str(r))

    def others():
        """Commands that come upon datasets in other ways."""
        key = ['--key-file', passphrase]
        files = rows('find', *key, f'{top}/pass', '-type', 'f')
        if len(files) < 100 or tarn('cat', *key, files[0]['path']).err:
            raise Failure(f'{len(files)} files')
        tarn('diff', *key, f'{top}/pass', f'{top}/pass')
        tarn('inspect', 'object', *key, f'{top}/pass', '1')

    report.check('keys: all', everything)
    report.check('keys: none', none)
    report.check('keys: wrong ones', wrong)
    report.check('keys: from a prompt', prompt)
    report.check('keys: other commands', others)
    report.check('keys: unchanged', fixture.unchanged)


# ---- Other states

def checkpoint(report, lab):
    fixture = Fixture(lab, 'checkpoint')
    path = os.path.join(fixture.home, 'manifest-checkpoint.jsonl')
    option = ['--rewind-to-checkpoint']

    def kept():
        want = judge.read_manifest(path)
        judge.compare(fixture.extracted('checkpoint', ['-R', *option]), want, path)
        return f'{len(want)} files'

    def none():
        expect(tarn('ls', *option, f'{Fixture(lab, "stripe").home}:stripe', check=False), 1,
               'the pool has no checkpoint')

    report.check('checkpoint: as it was', kept)
    report.check('checkpoint: a pool without', none)
    report.check('checkpoint: unchanged', fixture.unchanged)


def destroyed(report, lab):
    fixture = Fixture(lab, 'destroyed')

    def found():
        for options in [], ['-D'], ['--destroyed']:
            r = tarn('cat', *options, f'{fixture.home}:destroyed/f')
            if r.out != 'gone\n':
                raise Failure(str(r))

    def others():
        expect(tarn('ls', '-D', f'{Fixture(lab, "stripe").home}:stripe', check=False), 1,
               "no destroyed pool 'stripe' was found")

    report.check('destroyed: -D', found)
    report.check('destroyed: -D and others', others)


def rewind(report, lab):
    """The newest txgs cannot be read: the root blocks of the meta object set are overwritten."""
    fixture = Fixture(lab, 'stripe')
    top = f'{fixture.home}:stripe'
    ring = {}
    for row in rows('inspect', 'uberblocks', *fixture.images):
        ring[row['txg']] = row['root']
    txgs = sorted(ring, reverse=True)
    good = txgs[2]
    before = tarn('ls', '-lRA', '-T', str(good), top).out
    for txg in txgs[:2]:
        for vdev, offset in re.findall(r'<(\d+):([0-9a-f]+):', ring[txg]):
            with open(fixture.images[int(vdev)], 'r+b') as f:
                f.seek(0x400000 + int(offset, 16))
                f.write(b'\xa5' * 512)
    with Lab('rescue') as other:
        damaged = Fixture(other, fixture.home)

        def gone():
            expect(tarn('ls', top, check=False), 1, 'checksum')

        def older():
            r = tarn('ls', '-lRA', '--rewind', top)
            expect(r, 0, f'as of txg {good} (')
            if r.out != before or not before:
                raise Failure(str(r))

        def limited():
            """With -T it goes back from there."""
            r = tarn('ls', '-lRA', '--rewind', '-T', str(txgs[1]), top)
            expect(r, 0, f'as of txg {good} (')

        def not_needed():
            whole = Fixture(other, 'destroyed')
            r = tarn('ls', '--rewind', f'{whole.home}:destroyed')
            if r.err:
                raise Failure(str(r))

        report.check('rewind: without it', gone)
        report.check('rewind: an older txg', older)
        report.check('rewind: from a txg', limited)
        report.check('rewind: where it is not needed', not_needed)
        report.check('rewind: unchanged', damaged.unchanged)


CHECKS = {'zil': zil, 'keys': keys, 'checkpoint': checkpoint, 'destroyed': destroyed, 'rewind': rewind}


def main():
    need_root()
    need_tools('zstd')
    need_program()
    report = Report()
    for name in sys.argv[1:] or CHECKS:
        with Lab('rescue') as lab:
            os.environ['TARN_RUN_DIR'] = lab.path('run')
            os.makedirs(lab.path('run'), mode=0o700)
            CHECKS[name](report, lab)
    report.finish()


if __name__ == '__main__':
    main()
