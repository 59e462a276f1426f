#!/usr/bin/env python3
"""tools.py [NAME...]: the offline tools on pools of the reference. Every manifest (live file systems and
snapshots) equals what find lists, what extract puts into a folder, and what GNU tar unpacks of its
archive; verify finds what the reference's zdb found; streams decode as the reference's dump says; the
images stay as they were. NAME: some of the fixtures, or folders of unpacked ones."""
import atexit
import functools
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from fixtures import digest
from lab import BIN, TOP, Failure, Lab, Pool, Report, need_program, need_root, need_tools, run

FOLDER = os.path.join(TOP, 'tests', 'fixtures')
TARN = os.path.join(BIN, 'tarn')
NOBODY = 65534
CHECKPOINT_ONLY = 33567232       # of vdev 0 of the fixture: freed after the checkpoint was taken

def tarn(*args, **kw):
    return run([TARN, *args], **kw)


def rows(*args, **kw):
    document = json.loads(tarn(*args, '--json', **kw).out)
    if document['errors']:
        raise Failure(f'{args}: {document["errors"]}')
    return document['rows']


@functools.cache
def memory():
    """A folder in memory: the file systems of disks often have no room for large extended attributes."""
    folder = tempfile.mkdtemp(prefix='tarn-tools-',
                              dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else '/var/tmp')
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def name_of(row, key):
    """Names that are no UTF-8 come in hex as well."""
    return os.fsdecode(bytes.fromhex(row[key + '_hex'])) if key + '_hex' in row else row.get(key)


def no_sockets(manifest):
    return {p: e for p, e in manifest.items() if stat.S_IFMT(int(e['mode'], 8)) != stat.S_IFSOCK}


class Fixture:
    def __init__(self, lab, name):
        self.lab = lab
        self.name = os.path.basename(name)
        self.home = name if os.path.isdir(name) else lab.path(name)
        if not os.path.isdir(self.home):
            subprocess.run(f'zstd -q -d --long=31 -c "{FOLDER}/{name}.tar.zst" | tar x -C "{lab.dir}"',
                           shell=True, check=True)
        self.images = sorted(glob.glob(os.path.join(self.home, '*.img')))
        self.before = digest(self.images)
        self.scratch = os.path.join(memory(), 'scratch')

    def unchanged(self):
        if digest(self.images) != self.before:
            raise Failure('the images were changed')

    def manifests(self):
        """[(title, manifest file, dataset, options)]; the one without a name is of the whole pool as
        mounted, that of a checkpoint is another state."""
        for path in sorted(glob.glob(os.path.join(self.home, 'manifest*.jsonl'))):
            if not self.images:     # only streams
                continue
            text = os.path.basename(path)[len('manifest'):-len('.jsonl')].lstrip('-')
            if text in ('checkpoint', 'after-replay'):
                continue
            dataset = text.replace('+', '/')
            if dataset.split('/')[0].split('@')[0] != self.name:
                dataset = f'{self.name}/{dataset}' if dataset else self.name
            yield text or 'all', path, dataset, ([] if text else ['-R'])

    def volumes(self):
        """Volumes are no part of a manifest of mounts."""
        return [r['name'] for r in rows('inspect', 'dataset', f'{self.home}:{self.name}')
                if r['type'] == 'volume' and '@' not in r['name']]

    def fresh(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def extracted(self, dataset, options):
        self.fresh()
        tarn('extract', *options, f'{self.home}:{dataset}', self.scratch, timeout=300)
        for volume in self.volumes() if options else []:
            os.unlink(os.path.join(self.scratch, volume[len(self.name) + 1:]))
        return judge.manifest(self.scratch)

    def unpacked(self, dataset, options):
        self.fresh()
        os.mkdir(self.scratch)
        archive = self.lab.path('archive.tar')
        r = tarn('extract', '--tar', *options, f'{self.home}:{dataset}', archive, timeout=300,
                 check=False)
        lines = [line for line in r.err.splitlines() if not line.startswith('note: the NFSv4')]
        sockets = [line for line in lines if 'tar cannot hold a socket' in line]
        if r.status != (1 if lines else 0) or lines != sockets:
            raise Failure(str(r))
        run(['tar', '-x', '-p', '-f', archive, '--xattrs', '--xattrs-include=*', '--acls',
             '--numeric-owner', '-C', self.scratch], timeout=300)
        for volume in self.volumes() if options else []:
            os.unlink(os.path.join(self.scratch, volume[len(self.name) + 1:]))
        os.unlink(archive)
        return judge.manifest(self.scratch)

    def check_extract(self, path, dataset, options):
        want = judge.read_manifest(path)
        judge.compare(self.extracted(dataset, options), want, path)
        again = tarn('extract', *options, '-v', '--resume', f'{self.home}:{dataset}', self.scratch,
                     timeout=300)
        files = sum(1 for e in want.values() if 'size' in e)
        if f'{files} were there already' not in again.err and files and not self.volumes():
            raise Failure(f'--resume did not find the {files} files:\n{again.err[-300:]}')
        return f'{len(want)} files'

    def check_tar(self, path, dataset, options):
        want = judge.read_manifest(path)
        judge.compare(no_sockets(self.unpacked(dataset, options)), no_sockets(want), path)
        return f'{len(want)} files'

    def check_find(self, path, dataset, options):
        want = judge.read_manifest(path)
        top = f'{self.home}:{dataset}'
        got = {name_of(r, 'path')[len(top):].lstrip('/'): r for r in rows('find', top)}
        got.pop('')
        for name, entry in want.items():
            row = got.pop(name, None)
            if row is None:
                raise Failure(f'{name!r} is missing')
            seconds, nanos = row['mtime'].split('.')
            have = {'mode': oct(int(row['mode'], 8)), 'uid': row['uid'], 'gid': row['gid'],
                    'mtime_ns': int(seconds) * 10**9 + int(nanos), 'nlink': row['links'],
                    'size': row['size'], 'target': name_of(row, 'target')}
            for key, value in have.items():
                if key in entry and entry[key] != value:
                    raise Failure(f'{name!r}: {key} is {value!r}, should be {entry[key]!r}')
        if got:
            raise Failure(f'too much: {sorted(got)[:10]}')
        return f'{len(want)} files'


    def check_verify(self):
        """Against what the reference's zdb counts and says; without it, that nothing is wrong."""
        document = json.loads(tarn('verify', '--json', f'{self.home}:{self.name}', timeout=300).out)
        summary = document['summary']
        known = summary['claimed'] + summary['checkpoint'] + summary['gaps_of_removed_vdevs']
        if known != sum(summary['space_maps'].values()):
            raise Failure(f'claimed is not what the space maps have: {summary}')
        if not judge.ready():
            return 'not compared: the judge is not set up'
        ours = {}
        for r in document['rows']:
            name = f'L{r["level"]} {r["type"]}' if 'level' in r else r['type']
            ours[name] = [r['blocks'], r['lsize'], r['psize'], r['asize']]
        text = run([judge.ORACLE, 'zdb', '-e', '-p', self.home, '-P', '-bbbcc', self.name],
                   timeout=300).out
        if 'No leaks (block sum matches space maps exactly)' not in text:
            raise Failure(f'the reference has found something:\n{text}')
        theirs = {}
        for line in text.split('Blocks\tLSIZE')[1].split('Block Size Histogram')[0].splitlines()[1:]:
            cells = line.split('\t')
            if len(cells) == 8 and cells[0].strip() != '-':
                theirs[cells[7].strip()] = [int(c) for c in cells[:4]]
        wrong = [f'{n}: {ours.get(n)}, the reference has {row}' for n, row in theirs.items()
                 if n != 'Metadata Total' and ours.get(n) != row]
        if wrong or not theirs:
            raise Failure('\n'.join(wrong) or f'no table:\n{text}')
        for key, words in (('blocks', 'bp count'), ('logical', 'bp logical'), ('physical', 'bp physical'),
                           ('allocated', 'bp allocated'), ('deduplicated', 'bp deduped'),
                           ('cloned', 'bp cloned')):
            value = int(re.search(rf'{words}: +(\d+)', text)[1])
            if summary[key] != value:
                raise Failure(f'{words} is {summary[key]}, the reference has {value}')
        return f'{len(theirs)} rows of zdb'


    def check_checkpoint(self):
        """Space that only the checkpoint uses is overwritten: verify has looked there."""
        with open(self.images[0], 'r+b') as f:
            f.seek(0x400000 + CHECKPOINT_ONLY)
            kept = f.read(512)
            f.seek(0x400000 + CHECKPOINT_ONLY)
            f.write(b'\xa5' * 512)
        try:
            r = tarn('verify', '--json', f'{self.home}:{self.name}', check=False, timeout=300)
        finally:
            with open(self.images[0], 'r+b') as f:
                f.seek(0x400000 + CHECKPOINT_ONLY)
                f.write(kept)
        self.before = digest(self.images)
        findings = [row for row in json.loads(r.out)['rows'] if 'finding' in row]
        if r.status != 1 or not findings or not all(f['text'].startswith('checkpoint: ') for f in findings):
            raise Failure(str(r))
        return f'{len(findings)} findings'


class Damaged(Fixture):
    """A copy of a fixture in which a block of one file is overwritten, all copies of it."""

    def damage(self, dataset, path):
        self.dataset, self.path = dataset, path
        target = f'{self.home}:{dataset}'
        inode = rows('stat', f'{target}/{path}')[0]['inode']
        blocks = [r for r in rows('inspect', 'object', '--blocks', target, inode)
                  if r.get('level') == 0 and 'places' in r.get('bp', {})]
        self.bad = blocks[len(blocks) // 2]
        for place in self.bad['bp']['places']:
            with open(self.images[place['vdev']], 'r+b') as f:
                f.seek(0x400000 + place['offset'])
                f.write(b'\xa5' * 512)
        self.before = digest(self.images)
        self.offset = self.bad['block'] * rows('stat', f'{target}/{path}')[0]['block_size']

    def named(self, r):
        want = f'{self.path}: '
        at = [line for line in r.err.splitlines() if want in line and 'at offset' in line]
        if r.status != 1 or len(at) != 1 or f'at offset {self.offset} cannot be read' not in at[0]:
            raise Failure(f'block at {self.offset} of {self.path}:\n{r}')

    def check_extract_damaged(self, manifest):
        """All but the lost block comes out; the file has a hole there and no time; --resume tries again."""
        self.fresh()
        source = f'{self.home}:{self.dataset}'
        self.named(tarn('extract', source, self.scratch, check=False))
        want, got = judge.read_manifest(manifest), judge.manifest(self.scratch)
        lost = want.pop(self.path)
        have = got.pop(self.path)
        judge.compare(got, want, manifest)
        if have['size'] != lost['size'] or have['sha256'] == lost['sha256']:
            raise Failure(f'{self.path}: {have} of {lost}')
        if have['mtime_ns'] == lost['mtime_ns']:
            raise Failure('the damaged file looks complete')
        self.named(tarn('extract', '--resume', source, self.scratch, check=False))
        with open(os.path.join(self.scratch, self.path), 'rb') as f:
            rescued = f.read()
        r = subprocess.run([TARN, 'cat', f'{source}/{self.path}'], capture_output=True, check=False)
        if r.returncode != 1 or r.stdout != rescued:
            raise Failure(f'cat gives {len(r.stdout)} bytes, extract {len(rescued)}, not the same')

    def check_tar_damaged(self):
        archive = self.lab.path('archive.tar')
        self.named(tarn('extract', '--tar', f'{self.home}:{self.dataset}', archive, check=False))
        run(['tar', '-t', '-f', archive])

    def check_verify_damaged(self):
        r = tarn('verify', '--json', f'{self.home}:{self.name}', check=False)
        summary = json.loads(r.out)['summary']
        copies = len(self.bad['bp']['places'])
        if r.status != 1 or summary['unreadable'] != copies or summary['leaks'] or \
                f'block {self.bad["block"]}' not in r.err:
            raise Failure(f'{copies} copies are bad:\n{r}')


def check_damage(report, lab):
    fixture = Damaged(lab, 'basic')
    manifest = os.path.join(fixture.home, 'manifest-fs@one.jsonl')
    big = max((e for e in judge.read_manifest(manifest).values() if 'sha256' in e and
               e['size'] < 1 << 26 and '/sparse' not in e['path']), key=lambda e: e['size'])
    fixture.damage('basic/fs@one', big['path'])
    report.check('damage: extract', fixture.check_extract_damaged, manifest)
    report.check('damage: tar', fixture.check_tar_damaged)
    report.check('damage: verify', fixture.check_verify_damaged)
    report.check('damage: unchanged', fixture.unchanged)


def check_usage(report, lab):
    """Exit statuses, a pool that a process has, an ordinary user."""
    fixture = Fixture(lab, 'stripe')
    target = f'{fixture.home}:stripe'

    def statuses():
        for want, args in ((2, ['ls']), (2, ['ls', '-Q', target]), (1, ['ls', target + '/none']),
                           (1, ['ls', '/none:stripe']), (1, ['ls', f'{fixture.home}:other']),
                           (2, ['find', target, '-nonsense']), (2, ['mount', target, '/mnt']),
                           (0, ['ls', target]), (0, ['tree', '-L', '1', fixture.images[0]]),
                           (2, ['diff', target]), (0, ['diff', target, target]), (2, ['inspect', 'x']),
                           (1, ['cat', target]), (0, ['ls', '-d', fixture.home, 'stripe'])):
            r = tarn(*args, check=False)
            if r.status != want:
                raise Failure(f'{want} was expected:\n{r}')

    def imported():
        pool = Pool(lab, 'stripe', fixture.home, fixture.images)
        lab.pools.append(pool)
        pool.import_('-N')
        try:
            r = tarn('ls', target, check=False)
            if r.status != 1 or 'in use by process' not in r.err or '--live' not in r.err:
                raise Failure(str(r))
            r = tarn('ls', '--live', target)
            if 'note:' not in r.err:
                raise Failure(str(r))
        finally:
            pool.export()

    report.check('usage: exit statuses', statuses)
    report.check('usage: unchanged', fixture.unchanged)
    if os.access('/dev/fuse', os.W_OK):
        report.check('usage: imported', imported)


def check_windows(report, lab):
    """Owners of Windows domains and NFSv4 access lists; the words are those of the reference's zdb."""
    fixture = Fixture(lab, 'fuid')
    first, second = 'S-1-5-21-1004336348-1177238915-682003330', 'S-1-5-21-7623811015-3361044348-30300820'

    def stat_of(path):
        return rows('stat', f'{fixture.home}:fuid/fs/{path}')[0]

    def owners():
        for path, want in (('plain', (1000, None, 100, None)),
                           ('owner', (1013, first + '-1013', 513, first + '-513')),
                           ('group', (1000, None, 1105, second + '-1105')),
                           ('unknown', (1001, None, 100, None))):
            row = stat_of(path)
            got = row['uid'], row.get('uid_sid'), row['gid'], row.get('gid_sid')
            if got != want or 'nfs4_acl' in row:
                raise Failure(f'{path}: {row}')
        if f'Owner: {first}-1013' not in tarn('stat', f'{fixture.home}:fuid/fs/owner').out:
            raise Failure('no owner for people')

    def lists():
        got = [(a['who'], a['permissions'], a['flags'], a['type']) for a in stat_of('shared/nfs4')['nfs4_acl']]
        want = [(f'user:{second}-1105', 'r-----a-R-c--s', '-------', 'allow'),
                ('user:1001', '-w------------', '-------', 'deny'),
                ('group:200', 'rwxp--aARWcCos', '-------', 'allow'),
                ('owner@', 'rw-p--aARWcCos', '-------', 'allow'),
                ('group@', 'r-----a-R-c--s', '-------', 'allow'),
                ('everyone@', 'r-----a-R-c--s', '-------', 'allow')]
        if got != want:
            raise Failure(f'{got}\nshould be\n{want}')
        many = stat_of('shared/many')['nfs4_acl']
        if len(many) != 63 or many[59]['who'] != f'group:{second}-2059':
            raise Failure(f'{len(many)} entries: {many[58:61]}')
        if stat_of('shared')['nfs4_acl'][0]['flags'] != 'fd-----':
            raise Failure(str(stat_of('shared')))
        out = tarn('stat', f'{fixture.home}:fuid/fs/shared/nfs4').out
        if 'NFSv4: user:1001:-w------------:-------:deny' not in out:
            raise Failure(out)

    def znodes():
        """The lists of old znodes: within them, in an object, and without FUIDs."""
        for path, n, first_who in (('embedded', 5, f'user:{first}-1013'), ('object', 43, f'user:{first}-3000'),
                                   ('version0', 5, 'user:1001')):
            row = stat_of(f'old/{path}')
            if len(row['nfs4_acl']) != n or row['nfs4_acl'][0]['who'] != first_who or \
                    row['nfs4_acl'][-1]['who'] != 'everyone@':
                raise Failure(str(row))
        if row['nfs4_acl'][1]['who'] != 'group:200' or row['nfs4_acl'][0]['type'] != 'deny':
            raise Failure(str(row))

    def left_out():
        r = tarn('extract', f'{fixture.home}:fuid/fs', lab.path('out'))
        if 'NFSv4 access lists of 6 files are left out' not in r.err:
            raise Failure(str(r))

    report.check('windows: owners', owners)
    report.check('windows: access lists', lists)
    report.check('windows: old znodes', znodes)
    report.check('windows: extract says what it leaves out', left_out)
    report.check('windows: unchanged', fixture.unchanged)


def check_mended(report, lab):
    """Damage of one side of a mirror: whatever is read comes out right, and the device is named with
    its errors, for people and in JSON. What else every command says in JSON."""
    fixture = Fixture(lab, 'lay-mirror')
    target = f'{fixture.home}:lay-mirror'
    big = max((r for r in rows('find', target, '-type', 'f')), key=lambda r: r['size'])
    path = os.path.relpath(big['path'], target)

    def spoil():
        """All of one image but its labels."""
        with open(fixture.images[0], 'r+b') as f:
            size = f.seek(0, os.SEEK_END)
            for at in range(4 << 20, size - (1 << 20), 1 << 20):
                f.seek(at)
                if any(f.read(1 << 20)):
                    f.seek(at)
                    f.write(b'\xa5' * (1 << 20))

    def contents():
        """The bytes of the file, and the messages."""
        r = subprocess.run([TARN, 'cat', f'{target}/{path}'], capture_output=True, check=True, timeout=60)
        return r.stdout, r.stderr.decode()

    def mended():
        want, _ = contents()
        spoil()
        got, messages = contents()
        if got != want or f'note: {fixture.images[0]} had' not in messages or 'wrong checksums' not in messages:
            raise Failure(f'{len(got)} bytes of {len(want)}: {messages}')
        for args in (['extract', target, lab.path('out')], ['cp', f'{target}/{path}', lab.path('file')],
                     ['cat', f'{target}/{path}'], ['find', target], ['verify', target]):
            r = tarn(args[0], '--json', *args[1:], check=False)
            document = json.loads(r.out)
            bad = [d for d in document['devices']['lay-mirror'] if d['checksum_errors']]
            if r.status != (args[0] == 'verify') or document['errors'] or len(bad) != 1 or \
                    bad[0]['name'] != fixture.images[0] or bad[0]['state'] != 'ONLINE':
                raise Failure(f'{args}: {document["devices"]}\n{r.err}')
        return f'{bad[0]["checksum_errors"]} errors'

    def cat_json():
        want, _ = contents()
        got = bytearray(rows('cat', f'{target}/{path}')[0]['size'])
        for row in rows('cat', f'{target}/{path}')[1:]:
            data = bytes.fromhex(row['data_hex'])
            got[row['offset']:row['offset'] + row['length']] = data
        if got != want:
            raise Failure(f'{len(got)} bytes, should be {len(want)}')

    def mount_json():
        document = json.loads(tarn('mount', '--json', '--read-only', target, lab.path('none'), check=False).out)
        if document['errors'][0]['name'] != lab.path('none'):
            raise Failure(str(document))

    def no_uberblock():
        with open(lab.path('junk'), 'wb') as f:
            f.write(b'x' * 1000)
        r = tarn('inspect', 'uberblocks', lab.path('junk'), check=False)
        if r.status != 1 or 'there is no uberblock' not in r.err:
            raise Failure(str(r))

    report.check('JSON: cat', cat_json)
    report.check('JSON: mount that fails', mount_json)
    report.check('inspect: no uberblock', no_uberblock)
    report.check('mended: every command names the device', mended)


def check_mount(report, lab):
    """A snapshot mounted without importing its pool, by root and by an ordinary user."""
    fixture = Fixture(lab, 'basic')
    manifest = os.path.join(fixture.home, 'manifest-fs@one.jsonl')
    os.chmod(lab.dir, 0o755)

    def mounted(prefix, unmount):
        point = lab.path('mnt')
        os.makedirs(point, exist_ok=True)
        os.chmod(point, 0o777)
        if prefix:
            os.chown(point, NOBODY, NOBODY)
        run([*prefix, TARN, 'mount', '--read-only', f'{fixture.home}:basic/fs@one', point])
        try:
            if prefix:
                names = run([*prefix, 'ls', f'{point}/t']).out.split()
                want = {p.split('/')[1] for p in judge.read_manifest(manifest) if p.count('/') == 1}
                if set(names) != want:
                    raise Failure(f'{names}, should be {sorted(want)}')
                return f'{len(names)} names'
            want = judge.read_manifest(manifest)
            judge.compare(judge.manifest(point), want, manifest)
            return f'{len(want)} files'
        finally:
            run([*prefix, *unmount, point])

    def without_lists(prefix):
        """A file system with acltype=off, of which this user owns nothing."""
        other = Fixture(lab, 'fuid')
        point = lab.path('mnt')
        run([*prefix, TARN, 'mount', '--read-only', f'{other.home}:fuid/fs', point])
        try:
            run([*prefix, 'ls', f'{point}/shared'])
            run([*prefix, 'cat', f'{point}/shared/nfs4'])
        finally:
            run([*prefix, 'fusermount3', '-u', point])

    report.check('mount: root', mounted, [], ['umount'])
    if shutil.which('setpriv') and shutil.which('fusermount3'):
        user = ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups']
        report.check('mount: user', mounted, user, ['fusermount3', '-u'])
        report.check('mount: user, without POSIX ACLs', without_lists, user)
    report.check('mount: unchanged', fixture.unchanged)


def check_streams(report, folder):
    """The lines of the reference's dump, but for the lists in BEGIN records."""
    def lines(text):
        return [line for line in text.splitlines()
                if re.match(r'(OBJECT|FREE|WRITE|SPILL|END|BEGIN|REDACT)|\t(hdrtype|features|magic|flags|'
                            r'type|creation_time|toguid|fromguid|toname|payloadlen) = |\tTotal', line)]

    def check(path):
        ours = lines(tarn('stream', '-v', path).out)
        with open(path + '.dump.txt') as f:
            want = lines(f.read())
        ours = [line for line in ours if line in set(want) or not line.endswith('records = 0 (0 bytes)')]
        if sorted(x for x in ours if 'Total' in x) != sorted(x for x in want if 'Total' in x) or \
                [x for x in ours if 'Total' not in x] != [x for x in want if 'Total' not in x]:
            wrong = [f'{a}\n{b} is the reference' for a, b in zip(ours, want) if a != b]
            raise Failure('\n'.join(wrong[:5]) or f'{len(ours)} lines, the reference has {len(want)}')
        document = json.loads(tarn('stream', '--json', path).out)
        if document['errors'] or document['summary']['bad_checksums']:
            raise Failure(str(document['errors']))
        return f'{len(want)} lines'

    for path in sorted(glob.glob(os.path.join(folder, '*.zstream'))):
        if os.path.exists(path + '.dump.txt'):
            report.check(f'stream {os.path.basename(path)}', check, path)


def check_fixture(report, lab, name):
    fixture = Fixture(lab, name)
    for n, (title, path, dataset, options) in enumerate(fixture.manifests()):
        report.check(f'{fixture.name}: extract {title}', fixture.check_extract, path, dataset, options)
        if n % 10 == 0 or options:      # of many similar snapshots some
            report.check(f'{fixture.name}: tar {title}', fixture.check_tar, path, dataset, options)
        if not options:
            report.check(f'{fixture.name}: find {title}', fixture.check_find, path, dataset, options)
    if fixture.images:
        report.check(f'{fixture.name}: verify', fixture.check_verify)
    check_streams(report, fixture.home)
    report.check(f'{fixture.name}: unchanged', fixture.unchanged)
    if fixture.name == 'checkpoint':
        report.check(f'{fixture.name}: damage of the checkpoint', fixture.check_checkpoint)


def main():
    need_root()
    need_tools('zstd', 'tar')
    need_program()
    report = Report()
    if not sys.argv[1:]:
        checks = [check_usage, check_damage, check_windows, check_mended]
        if os.access('/dev/fuse', os.W_OK):
            checks.append(check_mount)
        for check in checks:
            with Lab('tools') as lab:
                os.environ['TARN_RUN_DIR'] = lab.path('run')
                os.makedirs(lab.path('run'), mode=0o700)
                check(report, lab)
    for name in sys.argv[1:] or ['basic', 'stripe', 'aged', 'checkpoint', 'streams', 'zil',
                                'foreign', 'mixed', 'fuid']:
        with Lab('tools') as lab:
            check_fixture(report, lab, name)
    report.finish()


if __name__ == '__main__':
    main()
