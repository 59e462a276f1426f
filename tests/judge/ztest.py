#!/usr/bin/env python3
"""ztest.py [NAME...]: pools that the reference's own stress test has made, with nearly everything the
format has: every layout, gangs, encryption, dedup, special vdevs, devices replaced and damaged. tarn verify
must say what zdb says: the same space leaked (the stress test is killed in the middle of its work), and
nothing else; tarn inspect dumps every object of every dataset; and nothing is written to the images.
NAME: some of POOLS. TARN_ZTEST_SECONDS: how long each runs (20)."""
import glob
import hashlib
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import BIN, Failure, Lab, Report, need_program, need_root, run

TARN = os.path.join(BIN, 'tarn')
SECONDS = int(os.environ.get('TARN_ZTEST_SECONDS', '20'))
POOLS = {
    'default': [],
    'mirror': ['-m', 2, '-r', 1, '-K', 'raidz'],
    'mirror3-random-ashift': ['-m', 3, '-r', 1, '-K', 'raidz', '-a', 0],
    'raidz2': ['-m', 1, '-r', 5, '-K', 'raidz', '-R', 2, '-a', 0],
    'raidz3': ['-m', 1, '-r', 6, '-K', 'raidz', '-R', 3],
    'expanding-raidz': ['-m', 1, '-r', 5, '-K', 'eraidz', '-R', 1],
    'draid2': ['-m', 1, '-r', 7, '-K', 'draid', '-R', 2, '-D', 3, '-S', 1, '-a', 0],
    'mirrored-draid': ['-m', 2, '-r', 8, '-K', 'draid', '-R', 1, '-D', 4, '-S', 2],
    'ashift12': ['-a', 12],
}
LEAK = re.compile(r'leaked space: vdev (\d+), offset (0x[0-9a-f]+), size (\d+)')
# The stress test damages devices itself, as far as they are redundant; and blocks of a dedup table
# that nothing refers to any more are leaks to zdb as well.
ALLOWED = {'repairable', 'leak', 'reference_count'}


def tarn(*args, check=True):
    return run([TARN, *args], timeout=300, check=check)


def document(*args):
    r = tarn(*args, '--json', check=False)
    if r.status not in (0, 1):
        raise Failure(str(r))
    return json.loads(r.out), r


class Made:
    def __init__(self, lab, name):
        self.home = lab.path(name)
        os.mkdir(self.home)
        self.log = run([judge.ORACLE, 'cmd', 'ztest', '-T', SECONDS, '-P', 10, '-f', self.home,
                        *POOLS[name]], timeout=SECONDS + 200, check=False)
        self.images = sorted(glob.glob(os.path.join(self.home, 'ztest.*')))
        if not self.images:
            raise Failure(f'the stress test has made no pool:\n{self.log}')
        self.pool = f'{self.home}:ztest'

    def digest(self):
        h = hashlib.sha256()
        for image in self.images:
            with open(image, 'rb') as f:
                h.update(hashlib.file_digest(f, 'sha256').digest())
        return h.hexdigest()

    def zdb(self, *options):
        r = run([judge.ORACLE, 'zdb', '-e', '-p', self.home, *options, 'ztest'], timeout=600,
                check=False)
        return re.sub(r'\r?loading concrete vdev[^\n\r]*', '', r.out + r.err)

    def verify(self):
        told, objects = self.zdb('-bcc'), self.zdb('-d')
        if 'bp count' not in told:
            raise Failure(f'zdb cannot read the pool:\n{told[-2000:]}')
        result, r = document('verify', self.pool)
        kinds = {}
        for row in result['rows']:
            if 'finding' in row:
                kinds[row['finding']] = kinds.get(row['finding'], 0) + 1
        leaks = set(LEAK.findall(told))
        if set(LEAK.findall(r.err)) != leaks and len(leaks) <= 100:
            raise Failure(f'zdb finds {len(leaks)} leaks:\n{r.err[:3000]}')
        allowed = set(ALLOWED)
        if re.search(r'block claim error|[Gg]ot error', told):
            allowed |= {'double_use', 'used_but_free', 'unreadable'}
        if re.search(r'MOS object \d+ .*leaked', objects):
            allowed |= {'mos_leak', 'mos_reference'}
        if set(kinds) - allowed or ('reference_count' in kinds and not leaks):
            raise Failure(f'{kinds}, and zdb does not\n{r.err[:3000]}')
        blocks = re.search(r'bp count:\s+(\d+)', told)
        if int(blocks[1]) != result['summary']['blocks'] and not leaks:
            raise Failure(f'{blocks[0]}, and tarn has {result["summary"]["blocks"]}')
        return f'{result["summary"]["blocks"]} blocks, {kinds or "nothing wrong"}'

    def objects(self):
        count = 0
        names = [row['name'] for row in document('inspect', 'dataset', self.pool)[0]['rows']]
        for name in [None, *names]:
            options = ['--mos', self.pool] if name is None else [f'{self.home}:{name}']
            listed = document('inspect', 'object', *options)
            if listed[0]['errors']:
                raise Failure(str(listed[1]))
            for row in listed[0]['rows']:
                got = document('inspect', 'object', '--blocks', *options, str(row['object']))
                if got[0]['errors']:
                    raise Failure(str(got[1]))
                count += 1
        return f'{count} objects of {len(names)} datasets'


def main():
    need_root()
    need_program()
    judge.need_judge()
    report = Report()
    for name in sys.argv[1:] or POOLS:
        with Lab('ztest') as lab:
            try:
                made = Made(lab, name)
            except Failure as e:
                report.fail(name, e)
                continue
            before = made.digest()
            report.check(f'{name}: verify', made.verify)
            report.check(f'{name}: objects', made.objects)
            if made.digest() != before:
                report.fail(name, 'the images were changed')
            shutil.rmtree(made.home)
    report.finish()


if __name__ == '__main__':
    main()
