#!/usr/bin/env python3
"""grub.py: a third opinion. GRUB has a reader of its own for ZFS pools: files of pools made by Tarn with the features
it knows (zpool create -d), and of old ones of the reference, read the same through grub-fstest and Tarn.
(Its listing of folders complains about every file, on pools of the reference too, so that is left out.)"""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from lab import BIN, TOP, Failure, Lab, Report, need_program, need_root, need_tools, run, seed, zfs

TARN = os.path.join(BIN, 'tarn')
# Features that GRUB 2.06 reads.
FEATURES = ['async_destroy', 'empty_bpobj', 'lz4_compress', 'large_blocks', 'embedded_data',
            'extensible_dataset', 'hole_birth', 'enabled_txg', 'filesystem_limits', 'bookmarks']
CASES = {'plain': ([], []), 'lz4': (['lz4_compress'], ['compression=lz4']),
         'all': (FEATURES, ['compression=lz4']), 'gzip': ([], ['compression=gzip-6']),
         'zle': ([], ['compression=zle']), 'lzjb': ([], ['compression=lzjb'])}
OLD = ['old1', 'old9', 'old14']         # fixtures of pool versions 1, 9, 14


def fill(folder, rng):
    sizes = [0, 1, 100, 511, 512, 4096, 65536, 131072, 131073, 1000003, 5 << 20]
    for i, size in enumerate(sizes):
        data = rng.randbytes(size) if i % 2 else (b'The quick brown fox %d. ' % i * (size // 20 + 1))[:size]
        with open(os.path.join(folder, f'file{i}'), 'wb') as f:
            f.write(data)
    os.makedirs(os.path.join(folder, 'a/b/c'))
    with open(os.path.join(folder, 'a/b/c/deep'), 'wb') as f:
        f.write(b'deep')
    with open(os.path.join(folder, 'holes'), 'wb') as f:
        f.write(b'x' * 100)
        f.seek(3 << 20)
        f.write(b'y' * 100)
    os.mkdir(os.path.join(folder, 'many'))
    for i in range(500):
        with open(os.path.join(folder, 'many', f'name-{i}'), 'wb') as f:
            f.write(b'%d' % i)


def grub(image, *command):
    r = subprocess.run(['grub-fstest', '-r', 'hostdisk', image, *command], capture_output=True, check=False, timeout=60)
    if r.returncode or b'error:' in r.stderr:
        raise Failure(f'grub-fstest {command}: {r.returncode} {r.stderr[-300:]} {r.stdout[-300:]}')
    return r.stdout


def compare(lab, image, pool, dataset, names):
    """Every file, byte for byte, as Tarn extracts it."""
    for name in names:
        local = lab.path('file')
        with open(local, 'wb') as out:
            subprocess.run([TARN, 'cat', f'{image}:{pool}{dataset}/{name}'], stdout=out, check=True, timeout=60)
        out = lab.path('grub')
        grub(image, 'cp', f'(loop0){dataset}/@/{name}', out)
        with open(local, 'rb') as a, open(out, 'rb') as b:
            if a.read() != b.read():
                raise Failure(f'{name} differs')


def files_of(image, pool):
    r = run([TARN, 'find', f'{image}:{pool}', '-type', 'f'])
    prefix = f'{image}:{pool}/'
    return [line[len(prefix):] for line in r.out.splitlines() if line.startswith(prefix)]


def made(lab, name, rng):
    features, properties = CASES[name]
    options = ['-d']
    for f in features:
        options += ['-o', f'feature@{f}=enabled']
    for p in properties:
        options += ['-O', p]
    pool = lab.pool('grub', ['128M'], options)
    fill(pool.mnt, rng)
    if 'extensible_dataset' not in features:    # GRUB cannot read a pool whose root dataset had a snapshot then
        zfs('snapshot', f'{pool.name}@snap')
    pool.export()
    image = pool.vdevs[0]
    names = files_of(image, pool.name)
    sample = [n for n in names if not n.startswith('many/')] + rng.sample([n for n in names if n.startswith('many/')], 20)
    compare(lab, image, pool.name, '', sample)
    return f'{len(sample)} files'


def old(lab, name):
    archive = os.path.join(TOP, 'tests', 'fixtures', name + '.tar.zst')
    subprocess.run(f'zstd -q -d --long=31 -c "{archive}" | tar x -C "{lab.dir}"', shell=True, check=True)
    images = [os.path.join(d, f) for d, _, fs in os.walk(lab.path(name)) for f in fs if f.endswith('.img')]
    if len(images) != 1:
        raise Failure(f'{images}')
    names = files_of(images[0], name)
    compare(lab, images[0], name, '', names)
    return f'{len(names)} files'


def main():
    need_root()
    need_program()
    need_tools('grub-fstest', 'zstd')
    rng, report = random.Random(seed()), Report()
    for name in CASES:
        with Lab('grub') as lab:
            report.check(f'made with {name}', made, lab, name, rng)
    for name in OLD:
        with Lab('grub') as lab:
            report.check(name, old, lab, name)
    report.finish()


if __name__ == '__main__':
    main()
