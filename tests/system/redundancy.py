#!/usr/bin/env python3
"""redundancy.py [NAME...]: pools of the reference on redundant layouts, imported read-only: the tree equals its
manifest with all disks, with each set of disks gone that the layout can do without (a random sample where
there are many), with such a set full of nonsense, and with small damage on other disks here and there;
where more is damaged than can be computed, what can be read is right, the rest is an error, and tarn
extract brings out the former and names the latter. tarn verify finds the damage. Other pools: TARN_FIXTURES=FOLDER with NAME.tar.zst files."""
import errno
import glob
import hashlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import BIN, TOP, Failure, Lab, Pool, Report, need_program, need_root, need_tools, seed, run, zfs, zpool

FOLDER = os.environ.get('TARN_FIXTURES', os.path.join(TOP, 'tests', 'fixtures'))
SAMPLE = int(os.environ.get('TARN_SAMPLE', '6'))        # sets of disks for each fixture
CHUNK = 16384
APART = 4 << 20                                         # more than any column of a block
TARN = os.path.join(BIN, 'tarn')
FIRST, LAST = 0x440000, 0x80000                         # labels and boot area in front, labels behind

# What a pool can do without: groups of disks, and how many of each.
LAYOUTS = {
    'tmirror3': [('012', 2)], 'traidz1x3': [('012', 1)], 'traidz1x5': [('01234', 1)], 'traidz2x5': [('01234', 2)],
    'traidz3x7': [('0123456', 3)], 'raid10': [('01', 1), ('23', 1)], 'raid50': [('012', 1), ('345', 1)],
    'raid60': [('0123', 2), ('4567', 2)], 'expanded': [('0123', 1)], 'tdraid': [('0123456', 2)],
    'removed': [], 'degraded': [], 'damaged': [], 'aux': [], 'zoo': [],
    'lay-mirror': [('02', 1)], 'lay-raidz1': [('01234', 1)], 'lay-raidz2': [('012345', 2)],
    'lay-raidz3': [('0123456', 3)], 'lay-expanded': [('01234', 1)], 'lay-expanding2': [('01234', 2)], 'lay-draid': [('0123567', 2)], 'lay-spare': [('1', 1)],
}
# Not complete or not healthy from the start, so that no disk's counters or states are looked at.
IMPERFECT = {'degraded', 'damaged', 'lay-mirror', 'lay-draid', 'lay-spare'}


class Fixture:
    def __init__(self, lab, name, rng):
        self.name, self.home, self.rng = name, lab.path(name), rng
        subprocess.run(f'zstd -q -d --long=31 -c "{FOLDER}/{name}.tar.zst" | tar x -C "{lab.dir}"', shell=True,
                       check=True)
        self.kept = lab.path('kept')
        os.makedirs(self.kept)
        self.images = sorted(glob.glob(os.path.join(self.home, '*.img')))
        self.pool = Pool(lab, name, self.home, self.images)
        lab.pools.append(self.pool)
        self.want = judge.read_manifest(os.path.join(self.home, 'manifest.jsonl'))

    def disk(self, number):
        return os.path.join(self.home, f'disk{number}.img')

    def sets(self, groups):
        """All sets of disks that can be missing together, or some of them."""
        choices = [[c for k in range(n + 1) for c in itertools.combinations(disks, k)] for disks, n in groups]
        sets = [sum(parts, ()) for parts in itertools.product(*choices)]
        sets = [s for s in sets if s]
        largest = max(map(len, sets))
        if len(sets) <= SAMPLE:
            return sets
        full = [s for s in sets if len(s) == largest]
        return self.rng.sample(full, min(len(full), SAMPLE - 2)) + self.rng.sample(sets, 2)

    def open(self):
        self.pool.import_('-o', 'readonly=on', '-R', self.pool.mnt)
        return zfs('get', '-H', '-o', 'value', 'mountpoint', self.name).out.strip()

    def vdevs(self):
        def below(v):
            yield v
            for child in v.get('vdevs', {}).values():
                yield from below(child)
        out = zpool('status', '-j', '--json-int', self.name).out
        return [v for top in json.loads(out)['pools'][self.name]['vdevs'].values() for v in below(top)]

    def counters(self):
        """{disk number: (read, write, checksum errors)} of those that are there."""
        return {os.path.basename(v['path'])[4:-4]: (v['read_errors'], v['write_errors'], v['checksum_errors'])
                for v in self.vdevs() if v.get('path', '').endswith('.img') and v['state'] == 'ONLINE'}

    def same(self):
        judge.compare(judge.manifest(self.open()), self.want, 'manifest')

    def whole(self):
        before = [(os.stat(i).st_mtime_ns, i) for i in self.images]
        self.same()
        state, counters = self.pool.get('health'), self.counters()
        self.pool.export()
        if [(os.stat(i).st_mtime_ns, i) for i in self.images] != before:
            raise Failure('the images were written to')
        if self.name not in IMPERFECT and (state != 'ONLINE' or any(map(any, counters.values()))):
            raise Failure(f'{state}, {counters}')
        return f'{len(self.want)} files'

    def without(self, disks):
        for d in disks:
            os.rename(self.disk(d), os.path.join(self.kept, d))
        try:
            self.same()
            state, counters = self.pool.get('health'), self.counters()
            self.pool.export()
        finally:
            for d in disks:
                os.rename(os.path.join(self.kept, d), self.disk(d))
        if self.name not in IMPERFECT and (state != 'DEGRADED' or any(map(any, counters.values()))):
            raise Failure(f'{state}, {counters}')

    def keep(self, disks):
        for d in disks:
            subprocess.run(['cp', '--sparse=always', self.disk(d), os.path.join(self.kept, d)], check=True)

    def put_back(self, disks):
        for d in disks:
            shutil.move(os.path.join(self.kept, d), self.disk(d))

    def nonsense(self, disks):
        """All bytes of these disks between the labels are noise: found out, counted, and no other blamed."""
        self.keep(disks)
        for d in disks:
            noise = self.rng.randbytes(1 << 20)
            with open(self.disk(d), 'r+b') as f:
                end = os.path.getsize(self.disk(d)) - LAST
                f.seek(FIRST)
                while f.tell() < end:
                    f.write(noise[:end - f.tell()])
        try:
            self.same()
            counters = self.counters()
            self.pool.export()
        finally:
            self.put_back(disks)
        blamed = {d for d, c in counters.items() if any(c)}
        if self.name not in IMPERFECT and not blamed <= set(disks):
            raise Failure(f'disks {blamed} are blamed for {disks}: {counters}')
        return f'{sum(c[2] for c in counters.values())} checksum errors'

    def used(self, disk):
        """Where it is not all zeros, between the labels."""
        with open(self.disk(disk), 'rb') as f:
            size = os.path.getsize(self.disk(disk))
            return [at for at in range(FIRST, size - LAST, CHUNK) if f.seek(at) == at and f.read(CHUNK).strip(b'\0')]

    def spoil(self, disk, at):
        with open(self.disk(disk), 'r+b') as f:
            f.seek(at)
            f.write(self.rng.randbytes(CHUNK))

    def verify(self):
        r = run([TARN, 'verify', '--json', f'{self.home}:{self.name}'], timeout=300, check=False)
        document = json.loads(r.out)
        return r, {row['finding'] for row in document['rows'] if 'finding' in row}, document['summary']

    def scattered(self, groups):
        """Other disks in other places, as many at once as a group can do without."""
        disks = ''.join(g for g, _ in groups)
        self.keep(disks)
        hit = set()
        for group, lost in groups:
            last = -APART
            for at in self.used(group[0]):
                if at - last < APART and last >= 0:
                    continue
                last = at
                for d in self.rng.sample(group, lost):
                    self.spoil(d, at)
                    hit.add(d)
        try:
            r, findings, summary = self.verify()
            self.same()
            self.pool.export()
        finally:
            self.put_back(disks)
        if findings != {'repairable'} or r.status != 1:
            raise Failure(f'verify finds {findings}:\n{r.err[:2000]}')
        blamed = {os.path.basename(d['name'])[4:-4] for d in summary['devices'] if d['checksum_errors']}
        if not blamed or not blamed <= hit:
            raise Failure(f'verify blames {blamed}, {hit} are damaged')
        return f'{summary["repairable"]} blocks'

    def beyond(self, groups):
        """A small part of what is on all disks of a group is noise. Metadata has copies elsewhere."""
        used, disks = max((self.used(g[0]), g) for g, _ in groups)
        self.keep(disks)
        for at in self.rng.sample(used, min(len(used), max(len(used) // 30, 2))):
            for d in disks:
                self.spoil(d, at)
        try:
            lost = self.partly()
            self.pool.export()
            self.rescued(lost)
        finally:
            self.put_back(disks)
        return f'{len(lost)} files are lost'

    def rescued(self, lost):
        """All but the lost files come out, and each of those is named, or a folder it is in."""
        out = os.path.join(self.kept, 'rescued')
        r = run([TARN, 'extract', '--json', '-R', f'{self.home}:{self.name}', out], timeout=300, check=False)
        named = {os.fsdecode(bytes.fromhex(e['name_hex'])) if 'name_hex' in e else e['name']
                 for e in json.loads(r.out)['errors']}
        if r.status != (1 if named else 0) or (lost and not named):
            raise Failure(f'status {r.status} for {lost}:\n{r.err[:2000]}')
        told = {n.split(': ')[0] for n in named}
        for path in lost:
            parts = [self.name, *path.split('/')]
            if not any('/'.join(parts[:i]) in told for i in range(2, len(parts) + 1)):
                raise Failure(f'{path} is lost and not named in {sorted(named)[:10]}')
        for path, entry in self.entries():
            if 'sha256' not in entry or path in lost:
                continue
            with open(os.path.join(out, path), 'rb') as f:
                if hashlib.file_digest(f, 'sha256').hexdigest() != entry['sha256']:
                    raise Failure(f'{path} was not rescued')
        shutil.rmtree(out)

    def partly(self):
        top, lost = self.open(), []
        for path, entry in self.entries():
            if 'sha256' not in entry:
                continue
            try:
                with open(os.path.join(top, path), 'rb') as f:
                    digest = hashlib.file_digest(f, 'sha256').hexdigest()
            except OSError as e:
                if e.errno != errno.EIO:
                    raise
                lost.append(path)
            else:
                if digest != entry['sha256']:
                    raise Failure(f'{path} reads, and is wrong')
        return lost

    def entries(self):
        with open(os.path.join(self.home, 'manifest.jsonl')) as f:
            for line in f:
                entry = json.loads(line)
                yield entry['path'], entry


def main():
    need_root()
    need_tools('zstd')
    need_program()
    here = [n for n in LAYOUTS if os.path.exists(os.path.join(FOLDER, n + '.tar.zst'))]
    names = sys.argv[1:] or here
    rng, report = random.Random(seed()), Report()
    for name in names:
        with Lab('redundancy') as lab:
            # The pools have plain names: a run folder of their own keeps them from others.
            os.environ['TARN_RUN_DIR'] = lab.path('run')
            os.makedirs(lab.path('run'), mode=0o700)
            fixture, groups = Fixture(lab, name, rng), LAYOUTS[name]
            if not report.check(f'{name}: whole', fixture.whole) or not groups:
                continue
            for disks in fixture.sets(groups):
                report.check(f'{name}: without {" ".join(disks)}', fixture.without, disks)
            for disks in fixture.sets(groups)[:3]:
                report.check(f'{name}: nonsense on {" ".join(disks)}', fixture.nonsense, disks)
            if name not in IMPERFECT:
                report.check(f'{name}: scattered', fixture.scattered, groups)
                report.check(f'{name}: beyond', fixture.beyond, groups)
    report.finish()


if __name__ == '__main__':
    main()
