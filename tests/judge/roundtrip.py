#!/usr/bin/env python3
"""roundtrip.py [--no-guest] [NAME...]: Tarn writes pools, the reference judges and goes on with them, Tarn takes
them back. For each pool of CASES:

  write      create, fill through the mount, list what is there, export
  judge      zdb: no error, no leak; check.py: every counter
  numbers    used, available, referenced of each dataset are what the reference says, to the byte
  reference  its kernel module imports, scrubs without an error, sees the same tree and properties,
             writes more, takes a snapshot, exports
  back       Tarn imports, sees the same tree, writes and removes more, exports
  rejudge    zdb and check.py again
  again      the reference imports once more, scrubs, sees the same tree

One guest boot serves all pools; the second one does 'again'. --no-guest ends after
zdb and the second reader. --keep leaves the folder."""
import concurrent.futures
import os
import random
import re
import shlex
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import fills
import judge
from lab import Failure, Lab, Report, need_program, seed, zfs, zpool


class Case:
    def __init__(self, name, sizes, options=(), datasets=(), fill=(fills.tree,), layout=''):
        self.name, self.sizes, self.options, self.layout = name, sizes, options, layout
        self.datasets, self.fill = datasets, fill


def o(text):
    """'a=b C=d' -> -o a=b -O C=d: small letters for pool properties, 'O:' for file systems."""
    out = []
    for word in text.split():
        out += ['-O', word[2:]] if word.startswith('O:') else ['-o', word]
    return out


CASES = [
    Case('a9', ['64M'], o('ashift=9 O:compression=off'), fill=[fills.tree]),
    Case('a12', ['512M'], o('ashift=12'), fill=[fills.full_tree, fills.many]),
    Case('a13', ['1G'], o('ashift=13 O:recordsize=1M'), fill=[fills.tree, fills.big]),
    Case('two', ['128M', '128M'], o('ashift=9'), fill=[fills.tree, fills.churn]),
    Case('three', ['256M'] * 3, o('ashift=12 O:compression=lz4'), fill=[fills.big, fills.churn]),
    Case('four', ['200M', '300M', '400M', '640M'], o('ashift=12'),
         fill=[fills.tree, fills.big, fills.many]),
    Case('r512', ['256M'], o('ashift=9 O:recordsize=512'), fill=[fills.tree, fills.churn]),
    Case('r4k', ['256M', '128M'], o('ashift=12 O:recordsize=4K O:checksum=sha256'),
         fill=[fills.tree, fills.big]),
    Case('xattrdir', ['256M'], o('ashift=12 O:xattr=dir O:acltype=posix'), fill=[fills.tree]),
    Case('xattrsa', ['256M'], o('ashift=13 O:xattr=sa O:acltype=posix O:atime=off'),
         fill=[fills.tree]),
    Case('nofeatures', ['256M'], ['-d', *o('ashift=12')], fill=[fills.tree, fills.churn]),
    Case('sets', ['1G'], o('ashift=12'), datasets=[
        ('plain', ''), ('small', 'recordsize=8K compression=lz4'),
        ('small/inner', 'checksum=sha256 org.example:note=kept'),
        ('limits', 'quota=100M reservation=20M'), ('off', 'compression=off atime=off'),
        ('gone', ''), ('large', 'recordsize=1M')], fill=[fills.tree, fills.churn]),
    Case('g20', ['20G'], o('ashift=12'), fill=[fills.full_tree, fills.big]),
    Case('g20x4', ['5G'] * 4, o('ashift=9'), fill=[fills.tree, fills.many, fills.big]),
    Case('m2', ['128M'] * 2, o('ashift=12'), fill=[fills.tree, fills.churn], layout='mirror:2'),
    Case('raid10', ['128M'] * 7, ['-f', *o('ashift=9')], fill=[fills.tree, fills.big],
         layout='mirror:2 mirror:3 mirror:2'),
    Case('z1', ['128M'] * 3, o('ashift=9'), fill=[fills.tree, fills.churn], layout='raidz1:3'),
    Case('z1k4', ['128M'] * 5, o('ashift=12 O:recordsize=4K'), fill=[fills.tree, fills.big],
         layout='raidz1:5'),
    Case('z2', ['128M', '128M', '140M', '132M'], o('ashift=12'), fill=[fills.tree, fills.many],
         layout='raidz2:4'),
    Case('z3', ['128M'] * 8, o('ashift=9 O:recordsize=1M O:compression=off'),
         fill=[fills.tree, fills.big], layout='raidz3:8'),
    Case('raid50', ['128M'] * 7, o('ashift=12'), fill=[fills.tree, fills.churn],
         layout='raidz1:3 raidz1:4'),
    Case('raid60', ['128M'] * 8, o('ashift=13'), fill=[fills.tree, fills.big],
         layout='raidz2:4 raidz2:4'),
    Case('mixed', ['128M'] * 6, ['-f', *o('ashift=12')], fill=[fills.tree, fills.churn],
         layout='raidz1:3 mirror:2 '),
]
COMPARED = 'compression,checksum,recordsize,atime,relatime,xattr,acltype,quota,reservation,' \
           'readonly,exec,setuid,devices,canmount,org.example:note'
# Hashing is slow in the guest: of larger files than this it hashes the data extents only.
BIG = 2 << 20
NUMBERS = 'name,used,available,referenced,usedbychildren,usedbydataset,logicalused,compressratio'

GUEST = r'''
T=/share/.tools
bad() { echo "@@ $P failed: $*"; }
look() {            # look NAME OUT: everything that can be read, scrub included
  P=$1; O=/share/.out/$P; mkdir -p "$O"
  zpool import -d /share/$P -R /mnt/$P $P 2>&1 || { bad import; return 1; }
  M=$(zfs get -H -o value mountpoint $P)
  timeout 300 zpool scrub -w $P || bad scrub
  zpool status -v $P >"$O/status$2"
  grep -q 'errors: No known data errors' "$O/status$2" || bad "status: $(cat "$O/status$2")"
  grep -q 'scan: scrub repaired 0B .* with 0 errors' "$O/status$2" || bad "scrub: $(cat "$O/status$2")"
  zfs get -Hp -r -t filesystem -o name,property,value PROPS $P >"$O/props$2"
  python3 $T/manifest.py "$M" BIG >"$O/manifest$2" || bad manifest
}
numbers() {
  P=$1; O=/share/.out/$P; mkdir -p "$O"
  zpool import -d /share/$P -N -o readonly=on $P 2>&1 || { bad readonly import; return; }
  zfs list -Hp -r -t filesystem -o NUMBERS $P >"$O/numbers"
  zpool export $P || bad export
}
more() {            # more NAME SEED
  P=$1; O=/share/.out/$P
  python3 $T/tree.py "$M/guest" $2 small || bad tree
  [ ! -f "$M/big" ] || dd if=/dev/urandom of="$M/big" bs=70001 seek=3 count=9 conv=notrunc status=none
  [ ! -d "$M/churn" ] || rm -rf "$M/churn/d0" "$M/churn/d1"
  zfs snapshot -r $P@guest || bad snapshot
  rm -rf "$M/guest/sizes" "$M/guest/many"; echo later >"$M/after-the-snapshot"
  zpool sync $P
  python3 $T/manifest.py "$M" BIG >"$O/manifest2" || bad manifest
}
'''.replace('PROPS', COMPARED).replace('NUMBERS', NUMBERS).replace('BIG', str(BIG))


class Trip:
    """One pool on its way."""

    def __init__(self, lab, case, report, rng):
        self.case, self.report = case, report
        self.rng = random.Random(rng.randrange(1 << 31))
        self.pool = lab.pool(case.name, case.sizes, create=False)
        self.out = lab.path('.out', self.pool.name)
        self.alive = True
        self.numbers = None

    def step(self, what, function, *args):
        if self.alive:
            self.alive = self.report.check(f'{self.case.name} {what}', function, *args)

    def write(self):
        self.pool.create(self.case.options, self.case.layout)
        for name, options in self.case.datasets:
            zfs('create', *o(options), f'{self.pool.name}/{name}')
        for fill in self.case.fill:
            fill(self.pool.mnt, self.rng)
        for name, _ in self.case.datasets:
            for fill in self.case.fill[:1] if name != 'limits' else (fills.churn,):
                fill(os.path.join(self.pool.mnt, name), self.rng)
        if ('gone', '') in self.case.datasets:
            zfs('destroy', f'{self.pool.name}/gone')
        self.properties = self.get_properties()
        self.manifest = judge.manifest(self.pool.mnt, BIG)
        self.pool.export()
        return f'{len(self.manifest)} files'

    def get_properties(self):
        return sorted(zfs('get', '-Hp', '-r', '-t', 'filesystem', '-o', 'name,property,value',
                          COMPARED, self.pool.name).out.splitlines())

    def verdict(self):
        return judge.verdict(self.pool)

    def own_numbers(self):
        self.pool.import_('-N', '-o', 'readonly=on')
        self.numbers = zfs('list', '-Hp', '-r', '-t', 'filesystem', '-o', NUMBERS,
                           self.pool.name).out
        self.pool.export()

    def compare_numbers(self):
        with open(os.path.join(self.out, 'numbers')) as f:
            theirs = f.read()
        if theirs != self.numbers:
            raise Failure(f'{NUMBERS}\nreference:\n{theirs}Tarn:\n{self.numbers}')

    def check_reference(self, console, mark):
        trouble = re.findall(rf'^@@ {self.pool.name} (failed: .*)', console, re.M)
        if trouble:
            raise Failure('\n'.join(trouble))
        got = judge.read_manifest(os.path.join(self.out, f'manifest{mark}'))
        judge.compare(got, self.manifest, 'the tree the reference sees')
        with open(os.path.join(self.out, f'props{mark}')) as f:
            got = sorted(f.read().splitlines())
        if got != self.properties:
            wrong = set(got) ^ set(self.properties)
            raise Failure('properties differ: ' + '; '.join(sorted(wrong)[:10]))

    def back(self):
        self.pool.import_()
        want = judge.read_manifest(os.path.join(self.out, 'manifest2'))
        judge.compare(judge.manifest(self.pool.mnt, BIG), want, 'the tree the reference left')
        shutil.rmtree(os.path.join(self.pool.mnt, 'guest', 'xattr'))
        fills.tree(self.pool.mnt, self.rng)
        fills.churn(self.pool.mnt, self.rng, 8 if self.case.sizes != ['64M'] else 2)
        self.properties = self.get_properties()
        self.manifest = judge.manifest(self.pool.mnt, BIG)
        self.pool.export()


def boot(lab, trips, lines):
    # Two at a time: the guest has two processors.
    script = GUEST + ''.join(f'( {first}\n) &\n( {second}\n) &\nwait\n' for first, second in
                             zip(lines[::2], lines[1::2] + [':']))
    return judge.guest(lab.dir, script, timeout=120 + 60 * len(trips), memory=3072)


def main():
    names = [a for a in sys.argv[1:] if not a.startswith('-')]
    if '--keep' in sys.argv:
        os.environ['TARN_KEEP'] = '1'
    need_program()
    judge.need_judge()
    rng = random.Random(seed())
    report = Report()
    with Lab('roundtrip') as lab, concurrent.futures.ThreadPoolExecutor(1) as aside:
        judge.tools_for_guest(lab.dir)
        trips = [Trip(lab, c, report, rng) for c in CASES if not names or c.name in names]

        def written(t):
            t.step('judge', t.verdict)

        # The judge works on one pool while the next is written.
        waiting = []
        for t in trips:
            t.step('write', t.write)
            if t.alive:
                report.check(f'{t.case.name} read-only import', t.own_numbers)
            waiting.append(aside.submit(written, t))
        for w in waiting:
            w.result()
        if '--no-guest' in sys.argv:
            report.finish()
            return
        live = [t for t in trips if t.alive]
        if live:
            lines = []
            for t in live:
                name = shlex.quote(t.pool.name)
                lines.append(f'numbers {name}; if look {name} 1; then '
                             f'more {name} {t.rng.randrange(1 << 30)}; '
                             f'zpool export {name} || bad export; fi')
            console = boot(lab, live, lines)
            for t in live:
                if t.numbers:
                    report.check(f'{t.case.name} numbers', t.compare_numbers)
                t.step('reference', t.check_reference, console, 1)
        waiting = []
        for t in trips:
            t.step('back', t.back)
            waiting.append(aside.submit(lambda t=t: t.step('rejudge', t.verdict)))
        for w in waiting:
            w.result()
        live = [t for t in trips if t.alive]
        if live:
            console = boot(lab, live, [f'look {t.pool.name} 3; zpool export {t.pool.name}'
                                       for t in live])
            for t in live:
                t.step('again', t.check_reference, console, 3)
    report.finish()


if __name__ == '__main__':
    main()
