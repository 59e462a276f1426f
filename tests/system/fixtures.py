#!/usr/bin/env python3
"""fixtures.py [--record] [NAME...]: pools of the reference, imported read-only: every file system and snapshot
equals its manifest, the space figures are the reference's to the byte, and the images stay as they
were. With --record the judge's guest writes those figures anew (tests/fixtures/NAME.numbers)."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import TOP, Failure, Lab, Pool, Report, need_program, need_root, need_tools, zfs, zpool

FOLDER = os.path.join(TOP, 'tests', 'fixtures')
NUMBERS = 'name,used,avail,refer,usedbysnapshots,usedbydataset,usedbychildren,' \
          'usedbyrefreservation,logicalused,logicalreferenced,compressratio,refcompressratio'


def digest(paths):
    out = []
    for path in paths:
        with open(path, 'rb') as f:
            out.append(hashlib.file_digest(f, 'sha256').hexdigest())
    return out


class Fixture:
    def __init__(self, lab, name):
        self.name, self.home = name, lab.path(name)
        subprocess.run(f'zstd -q -d --long=31 -c "{FOLDER}/{name}.tar.zst" | tar x -C "{lab.dir}"',
                       shell=True, check=True)
        self.images = sorted(glob.glob(os.path.join(self.home, '*.img')))
        self.pool = Pool(lab, name, self.home, self.images)
        self.root = self.pool.mnt
        lab.pools.append(self.pool)

    def open(self):
        self.before = digest(self.images)
        self.pool.import_('-o', 'readonly=on', '-R', self.root)

    def manifests(self):
        """[(title, manifest file, dataset, snapshot or None)]"""
        rows = []
        for path in sorted(glob.glob(os.path.join(self.home, 'manifest*.jsonl'))):
            text = os.path.basename(path)[len('manifest'):-len('.jsonl')].lstrip('-')
            if text == 'checkpoint':
                continue                # the tree before the checkpoint, another import
            dataset, _, snapshot = text.replace('+', '/').partition('@')
            if dataset.split('/')[0] != self.name:
                dataset = f'{self.name}/{dataset}'.rstrip('/')
            rows.append((text or 'all', path, dataset, snapshot or None))
        return rows

    def compare(self, path, dataset, snapshot):
        top = zfs('get', '-H', '-o', 'value', 'mountpoint', dataset).out.strip()
        if not top.startswith(self.root):
            raise Failure(f'{dataset} is mounted at {top}, not below the altroot {self.root}')
        if snapshot:
            top = os.path.join(top, '.zfs', 'snapshot', snapshot)
        want = judge.read_manifest(path)
        judge.compare(judge.manifest(top), want, path)
        return f'{len(want)} files'

    def numbers(self):
        """Against what the reference said after its own read-only import."""
        with open(os.path.join(FOLDER, self.name + '.numbers')) as f:
            want = f.read().splitlines()
        got = zfs('list', '-Hp', '-r', '-t', 'filesystem', '-o', NUMBERS, self.name).out.splitlines()
        if got != want:
            wrong = [f'{a}\n{b} is the reference' for a, b in zip(got, want) if a != b]
            raise Failure('\n'.join([NUMBERS, *wrong, f'{len(got)} and {len(want)} rows']))

    def shape(self):
        """What status says about removal, expansion and checkpoint, but for what export has changed."""
        def lines(text):
            found = re.findall(r'^((?:remove|expand|checkpoint):.*(?:\n\t.*memory used.*)?)$', text, re.M)
            return [re.sub('consumes .*', '', line) for line in found]
        with open(os.path.join(self.home, 'reference.txt')) as f:
            want = lines(f.read())
        got = lines(zpool('status', self.name).out)
        if got != want:
            raise Failure(f'{got}\n{want} is the reference')
        if 'checkpoint' in ''.join(want) and self.pool.get('checkpoint') != '2616320':
            raise Failure('checkpoint is ' + self.pool.get('checkpoint'))
        return '; '.join(want)

    def read_only(self):
        top = zfs('get', '-H', '-o', 'value', 'mountpoint', self.name).out.strip()
        try:
            with open(os.path.join(top, 'new'), 'wb'):
                pass
        except OSError as e:
            if e.errno != 30:
                raise
        else:
            raise Failure('a file was created in a pool imported read-only')
        r = zfs('create', f'{self.name}/new', check=False)
        if r.status != 1 or 'read-only' not in r.err:
            raise Failure(f'zfs create on a read-only pool:\n{r}')

    def close(self):
        self.pool.export()
        if digest(self.images) != self.before:
            raise Failure('the images were changed')


def record(names):
    judge.need_judge()
    with Lab('fixtures') as lab:
        for name in names:
            Fixture(lab, name)
        lab.pools.clear()
        lines = [f'zpool import -d /share/{n} -N -o readonly=on {n} && '
                 f'zfs list -Hp -r -t filesystem -o {NUMBERS} {n} >/share/{n}.numbers; '
                 f'zpool export {n}' for n in names]
        judge.guest(lab.dir, '\n'.join(lines) + '\n', timeout=600)
        for name in names:
            shutil.copy(lab.path(name + '.numbers'), FOLDER)


def main():
    need_root()
    need_tools('zstd')
    names = [a for a in sys.argv[1:] if a != '--record'] or \
        ['basic', 'stripe', 'aged', 'checkpoint', 'foreign', 'mixed', 'odd', 'fuid', 'lay-expanded']
    if '--record' in sys.argv:
        return record(names)
    need_program()
    report = Report()
    for name in names:
        with Lab('fixtures') as lab:
            # The pools have plain names: a run folder of their own keeps them from others.
            os.environ['TARN_RUN_DIR'] = lab.path('run')
            os.makedirs(lab.path('run'), mode=0o700)
            fixture = Fixture(lab, name)
            if not report.check(f'{name}: import', fixture.open):
                continue
            for title, *what in fixture.manifests():
                report.check(f'{name}: {title}', fixture.compare, *what)
            if os.path.exists(os.path.join(FOLDER, name + '.numbers')):
                report.check(f'{name}: numbers', fixture.numbers)
            if os.path.exists(os.path.join(fixture.home, 'reference.txt')):
                report.check(f'{name}: status', fixture.shape)
            report.check(f'{name}: read-only', fixture.read_only)
            report.check(f'{name}: export', fixture.close)
    report.finish()


if __name__ == '__main__':
    main()
