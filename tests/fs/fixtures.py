#!/usr/bin/env python3
"""fixtures.py FSMANIFEST DIRECTORY...: reads each pool of the reference (a directory with disk*.img and
manifest*.jsonl, see its README) through our own layers and compares every file with its manifest. The
directories are those given, or those below $TARN_FIXTURES, or what tests/fixtures has packed."""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def unhex(text):
    return os.fsdecode(bytes.fromhex(text))


# Encryption roots of the fixtures, and the files with their keys.
KEYS = {'crypt': {'crypt/pass': 'pass.key', 'crypt/raw': 'raw.key'}}
PASSPHRASES = {'crypt': 'correct horse'}


def ours(program, pool, dataset, options=()):
    if pool.name in PASSPHRASES:
        (pool / 'pass.key').write_text(PASSPHRASES[pool.name])
    keys = [f'{root}={pool / file}' for root, file in KEYS.get(pool.name, {}).items()]
    run = subprocess.run([program, *options, str(pool), dataset, *keys], stdout=subprocess.PIPE, check=False)
    rows = {}
    for line in run.stdout.splitlines():
        e = json.loads(line)
        e['path'] = unhex(e['path'])
        if 'target' in e:
            e['target'] = unhex(e['target'])
        if 'xattr' in e:
            e['xattr'] = {unhex(k): base64.b64encode(bytes.fromhex(v)).decode()
                          for k, v in e['xattr'].items()}
        rows[e['path']] = e
    return run.returncode, rows


def file_systems(pool):
    """Names of the pool's file systems: from what the reference said or, of a pool that it did not
    make, from the manifests of snapshots (manifest-FS@SNAP.jsonl)."""
    if not (pool / 'reference.txt').exists():
        names = {m.name[len('manifest-'):].split('@')[0] for m in pool.glob('manifest-*@*.jsonl')}
        return [pool.name] + sorted(f'{pool.name}/{n}' for n in names)
    lines = (pool / 'reference.txt').read_text(errors='replace').splitlines()
    return [f[0] for f in map(str.split, lines)
            if len(f) > 2 and f[1] == 'filesystem' and f[0].split('/')[0] == pool.name] or [pool.name]


def whole(program, pool, options=()):
    """The tree as mounted: each file system below the one above."""
    rows, rc = {}, 0
    for name in sorted(file_systems(pool)):
        below = name[len(pool.name) + 1:]
        one, got = ours(program, pool, name, options)
        rc |= one
        for path, e in got.items():
            e['path'] = '/'.join(p for p in (below, path) if p)
            rows[e['path']] = e
    rows.pop('', None)
    return rc, rows


def compare(program, pool, manifest):
    name = manifest.name[len('manifest'):-len('.jsonl')].lstrip('-').replace('+', '/')
    if not name:
        rc, got = whole(program, pool)
    elif name == 'checkpoint':              # the tree before it
        rc, got = whole(program, pool, ['--checkpoint'])
    else:
        full = name if name.split('/')[0].split('@')[0] == pool.name else f'{pool.name}/{name}'
        rc, got = ours(program, pool, full)
        got.pop('', None)
    want = {}
    for line in manifest.read_text().splitlines():
        e = json.loads(line)
        want[e['path']] = e
    bad = [p for p in sorted(set(got) | set(want)) if got.get(p) != want.get(p)]
    for p in bad[:5]:
        print(f'{name or pool.name}: {p!r}\n  ours {got.get(p)}\n  want {want.get(p)}')
    print(f'{name or pool.name}: {len(got)} files, {len(bad)} differ')
    return rc == 0 and not bad


def unpack(into):
    packed = pathlib.Path(__file__).resolve().parent.parent / 'fixtures'
    for archive in sorted(packed.glob('*.tar.zst')):
        subprocess.run(f'zstd -q -d --long=31 -c {archive} | tar -x --sparse -C {into}', shell=True,
                       check=True)


def pools_below(base):
    return sorted(p for p in pathlib.Path(base).iterdir() if list(p.glob('disk*.img')))


def main():
    dirs = [pathlib.Path(d) for d in sys.argv[2:]]
    base = os.environ.get('TARN_FIXTURES')
    if dirs or base:
        return check(sys.argv[1], dirs or pools_below(base))
    with tempfile.TemporaryDirectory(prefix='tarn-fixtures-') as into:
        unpack(into)
        return check(sys.argv[1], pools_below(into))


def check(program, dirs):
    good = [compare(program, d, m) for d in dirs for m in sorted(d.glob('manifest*.jsonl'))
            if 'replay' not in m.name]
    return 0 if all(good) else 1


sys.exit(main())
