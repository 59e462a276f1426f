#!/usr/bin/env python3
"""errors.py: bad input of every kind gets one clear sentence and the right exit status, and changes
nothing: the images are compared before and after."""
import hashlib
import os
import random
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import BIN, SLOW, Failure, Lab, Pool, Report, need_root, run, seed, wait_gone, zfs, zpool

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def digest(*paths):
    return [hashlib.sha256(slurp(p)).hexdigest() for p in paths]


def slurp(path):
    with open(path, 'rb') as f:
        return f.read()


def refused(r, status, *words):
    """The command failed with this status and one sentence that has these words (regexps)."""
    text = r.err.strip()
    if r.status != status or not all(re.search(w, text, re.I) for w in words):
        raise Failure(f'should end with status {status} and say {words}:\n{r}')
    if r.out.strip() or 'assert' in text.lower() or len(text.splitlines()) > 6:
        raise Failure(f'should be one clear sentence on standard error:\n{r}')


def unchanged(paths, function):
    before = digest(*paths)
    function()
    if digest(*paths) != before:
        raise Failure('the images were changed')


def made(lab, name='bad', sizes=('256M',), content=b'content'):
    """A pool with a file in it, exported."""
    pool = lab.pool(name, sizes)
    with open(f'{pool.mnt}/file', 'wb') as f:
        f.write(content)
    pool.export()
    return pool


def end_if_there(pool):
    """For an import that failed half way, at mounting for instance."""
    r = zpool('list', '-H', '-o', 'name', pool.name, check=False)
    if r.status == 0:
        pid = pool.pid()
        if zpool('export', pool.name, check=False).status == 0:
            wait_gone(pid)
            pool.last_pid = None
        else:
            pool.kill()


def works(pool, content=b'content'):
    pool.import_()
    with open(f'{pool.mnt}/file', 'rb') as f:
        if f.read() != content:
            raise Failure('the file is not what it was')
    pool.export()


@test
def wrong_devices(lab):
    text = lab.path('text')
    with open(text, 'w') as f:
        f.write('not a device\n' * 10)
    pool = Pool(lab, f'wrong{os.getpid()}', lab.dir, [])
    lab.pools.append(pool)
    for device, words in ((lab.path('none'), ['cannot (resolve|open)', 'none']),
                          (text, ['less than the minimum size|too small']),
                          (lab.dir, ['director|cannot|not']), ('/dev/null', ['null'])):
        refused(zpool('create', '-m', pool.mnt, pool.name, device, check=False), 1, *words)
    with open(text) as f:
        if f.read() != 'not a device\n' * 10:
            raise Failure('the file was changed')


@test
def a_file_system_on_the_device(lab):
    """A block device that holds a file system needs -f."""
    image = lab.image('ext4.img', '128M')
    run(['mkfs.ext4', '-q', '-F', image])
    loop = run(['losetup', '-f', '--show', image]).out.strip()
    pool = Pool(lab, f'overext{os.getpid()}', lab.dir, [loop])
    lab.pools.append(pool)
    try:
        unchanged([image], lambda: refused(
            zpool('create', '-m', pool.mnt, pool.name, loop, check=False), 1, 'ext4', '-f'))
        pool.create(['-f'])
        pool.export()
    finally:
        run(['losetup', '-d', loop])


@test
def pool_in_use(lab):
    """A device of an imported pool can't be used again, by anybody, and the holder is named."""
    pool = lab.pool('busy')
    refused(zpool('create', '-f', 'other', pool.vdevs[0], check=False), 1, pool.name)
    refused(zpool('labelclear', '-f', pool.vdevs[0], check=False), 1, pool.name)
    r = pool.import_(check=False)
    refused(r, 1, pool.name, 'already|in use|no such pool')
    copy = os.path.join(pool.home, 'link.img')
    os.symlink(pool.vdevs[0], copy)
    refused(zpool('import', '-d', pool.home, pool.name, 'second', check=False), 1,
            f"in use: already imported as '{pool.name}'")
    pool.export()
    works_with = Pool(lab, pool.name, pool.home, pool.vdevs)
    lab.pools.append(works_with)
    os.unlink(copy)
    # The pool's process works in another directory than who named the devices'.
    zpool('import', '-d', '.', pool.name, cwd=pool.home)
    works_with.export()


@test
def device_of_an_exported_pool(lab):
    """It needs -f: an exported pool is data."""
    pool = made(lab)
    unchanged(pool.vdevs, lambda: refused(
        zpool('create', 'other', pool.vdevs[0], check=False), 1, 'exported|potentially active|part of',
        pool.name, '-f'))
    unchanged(pool.vdevs, lambda: refused(
        zpool('labelclear', pool.vdevs[0], check=False), 1, pool.name, '-f'))
    works(pool)


@test
def missing_device(lab):
    pool = made(lab, sizes=['128M', '128M'])
    away = lab.path('away')
    shutil.move(pool.vdevs[1], away)
    unchanged(pool.vdevs[:1], lambda: refused(pool.import_(check=False), 1, pool.name))
    r = zpool('import', '-d', pool.home, check=False)
    if 'state: UNAVAIL' not in r.out or 'missing' not in r.out:
        raise Failure(f'the listing should say that a device is missing:\n{r}')
    shutil.move(away, pool.vdevs[1])
    works(pool)


def poke(path, offset, data):
    with open(path, 'r+b') as f:
        f.seek(offset)
        f.write(data)


@test
def damaged_labels(lab):
    """Any one of the four labels is enough; with none there is no pool."""
    pool = made(lab)
    image = pool.vdevs[0]
    size = os.path.getsize(image)
    places = [0, 262144, size - 524288, size - 262144]
    shutil.copy(image, lab.path('good'))
    for keep in range(4):
        shutil.copy(lab.path('good'), image)
        for i, place in enumerate(places):
            if i != keep:
                poke(image, place, os.urandom(262144))
        pool.import_()
        pool.export()
        judge.recheck(pool.vdevs)
    judge.verdict(pool)
    for place in places:
        poke(image, place, bytes(262144))
    unchanged([image], lambda: refused(pool.import_(check=False), 1, 'no such pool'))


@test
def damaged_uberblocks(lab):
    """The newest uberblock of the best label is not the only one."""
    pool = made(lab)
    image = pool.vdevs[0]
    for place in (0, 262144):
        poke(image, place + 131072, os.urandom(131072))
    works(pool)
    size = os.path.getsize(image)
    for place in (0, 262144, size - 524288, size - 262144):
        poke(image, place + 131072, bytes(131072))
    unchanged([image], lambda: refused(pool.import_(check=False), 1, pool.name))


@test
def hostile_labels(lab):
    """Random bytes in the configuration: never a crash, always an end."""
    rng = random.Random(seed())
    pool = made(lab)
    image = pool.vdevs[0]
    shutil.copy(image, lab.path('good'))
    size = os.path.getsize(image)
    for _ in range(12):
        shutil.copy(lab.path('good'), image)
        at = 16384 + rng.randrange(2000)
        junk = rng.randbytes(rng.choice([1, 4, 50, 1000]))
        for place in (0, 262144, size - 524288, size - 262144):
            label = bytearray(slurp(image)[place + 16384:place + 131072])
            label[at - 16384:at - 16384 + len(junk)] = junk
            # with a right checksum, or it would only be found by that
            struct.pack_into('<5Q', label, len(label) - 40, 0x0210DA7AB10C7A11, place + 16384, 0, 0, 0)
            words = struct.unpack('>4Q', hashlib.sha256(label).digest())
            struct.pack_into('<4Q', label, len(label) - 32, *words)
            poke(image, place + 16384, bytes(label))
        r = pool.import_(check=False)
        if r.status not in (0, 1) or r.status == 1 and not r.err.strip():
            raise Failure(f'at {at}, {junk.hex()[:40]}:\n{r}')
        end_if_there(pool)


@test
def damaged_data(lab):
    """A file's blocks are overwritten: EIO for that file, the pool goes on, status counts it."""
    pool = lab.pool('damage', options=['-o', 'ashift=12', '-O', 'compression=off'])
    unit = os.urandom(4096)
    with open(f'{pool.mnt}/bad', 'wb') as f:
        f.write(unit * 256)
    with open(f'{pool.mnt}/good', 'wb') as f:
        f.write(b'good')
    pool.export()
    raw = slurp(pool.vdevs[0])
    at = raw.find(unit)
    if at < 0:
        raise Failure('the data is not found in the image')
    while at >= 0:
        poke(pool.vdevs[0], at, b'\xde\xad')
        at = raw.find(unit, at + 4096)
    pool.import_()
    try:
        with open(f'{pool.mnt}/bad', 'rb') as f:
            f.read()
        raise Failure('damaged data was read without an error')
    except OSError as e:
        if e.errno != 5:
            raise
    with open(f'{pool.mnt}/good', 'rb') as f:
        if f.read() != b'good':
            raise Failure('the other file')
    r = zpool('status', '-v', pool.name)
    row = re.search(r'disk1\.img +ONLINE +\d+ +\d+ +(\d+)', r.out)
    if not row or row[1] == '0':
        raise Failure(f'status should count checksum errors:\n{r}')
    pool.export()


@test
def damaged_metadata(lab):
    """The pool is full of random damage: an error or an import, never a crash or a hang."""
    rng = random.Random(seed())
    pool = made(lab, content=os.urandom(1 << 20))
    image = pool.vdevs[0]
    shutil.copy(image, lab.path('good'))
    raw = slurp(image)
    used = [i for i in range(4 << 20, len(raw) - (1 << 20), 4096) if raw[i:i + 4096].strip(b'\0')]
    for _ in range(12):
        shutil.copy(lab.path('good'), image)
        for place in rng.sample(used, min(len(used), rng.choice([1, 5, 50]))):
            poke(image, place + rng.randrange(4000), rng.randbytes(rng.randrange(1, 60)))
        r = pool.import_(check=False)
        if r.status == 0:
            run(['find', pool.mnt], check=False)
            if not os.path.exists(f'/proc/{pool.last_pid}'):
                raise Failure('the pool process died')
        elif r.status != 1 or not r.err.strip():
            raise Failure(str(r))
        end_if_there(pool)


@test
def unknown_features(lab):
    """A feature nobody knows, active, in the label: refused by name, nothing changed."""
    pool = made(lab)
    image = pool.vdevs[0]
    raw = slurp(image)
    size = len(raw)
    # Another name of the same length in the list of what is needed to read.
    name = b'com.delphix:hole_birth'
    if name not in raw[16384:131072]:
        raise Failure('the label does not list hole_birth')
    for place in (0, 262144, size - 524288, size - 262144):
        label = bytearray(raw[place + 16384:place + 131072].replace(name, b'org.example:hole_xxxxx'))
        struct.pack_into('<5Q', label, len(label) - 40, 0x0210DA7AB10C7A11, place + 16384, 0, 0, 0)
        struct.pack_into('<4Q', label, len(label) - 32,
                         *struct.unpack('>4Q', hashlib.sha256(label).digest()))
        poke(image, place + 16384, bytes(label))
    unchanged([image], lambda: refused(pool.import_(check=False), 1, pool.name,
                                       'unsupported', 'org.example:hole_xxxxx'))


@test
def wrong_properties(lab):
    pool = lab.pool('prop')
    def local():
        rows = zfs('get', '-Hp', 'all', pool.name).out.splitlines()
        return {row for row in rows if row.endswith('\tlocal')}
    before = local()
    for prop, words in (('compression=bad', ['must be one of']),
                        ('recordsize=3000', ['power of 2']), ('recordsize=64M', ['power of 2']),
                        ('atime=maybe', ['must be one of']), ('nosuch=1', ['invalid property']),
                        ('mountpoint=relative', ['absolute path']), ('quota=10x', ['numeric suffix']),
                        ('used=1', ['readonly']), ('quota=1', ['less than'])):
        r = zfs('set', prop, pool.name, check=False)
        if r.status == 0 or not all(w in r.err for w in words):
            raise Failure(f'should say {words}:\n{r}')
    if local() != before:
        raise Failure('properties changed')


@test
def not_supported_yet(lab):
    """What isn't written yet is said so, by name, and not half done."""
    pool = lab.pool('later')
    for prop in ('encryption=on', 'dedup=on'):
        r = zfs('create', '-o', prop, f'{pool.name}/x', check=False)
        if r.status == 0:
            continue                    # it is supported by now
        refused(r, 1, prop.split('=')[0])
        if zfs('list', f'{pool.name}/x', check=False).status == 0:
            raise Failure('the file system was created all the same')


@test
def busy_mounts(lab):
    """An open file keeps export from happening; the pool stays whole; -f or closing lets it go."""
    pool = lab.pool('busym')
    with open(f'{pool.mnt}/f', 'wb') as f:
        f.write(b'x')
        r = zpool('export', pool.name, check=False)
        refused(r, 1, 'busy')
        f.write(b'y')
        f.flush()
        os.fsync(f.fileno())
    pool.export()
    pool.import_()
    with open(f'{pool.mnt}/f', 'rb') as f:
        if f.read() != b'xy':
            raise Failure('content')
    pool.export()


@test
def host_disk_full(lab):
    """The file system below the images is full: an error and a suspended pool or ENOSPC, never a
    crash; what was synced before is there afterwards."""
    small = lab.path('small')
    os.makedirs(small)
    run(['mount', '-t', 'tmpfs', '-o', 'size=100M', 'tmpfs', small])
    image = os.path.join(small, 'disk1.img')
    with open(image, 'wb') as f:
        f.truncate(1 << 30)
    pool = Pool(lab, f'hostfull{os.getpid()}', small, [image])
    pool.mnt = lab.path('hostmnt')
    lab.pools.append(pool)
    pool.create(['-O', 'compression=off'])
    with open(f'{pool.mnt}/keep', 'wb') as f:
        f.write(b'keep' * 1000)
        f.flush()
        os.fsync(f.fileno())
    writer = subprocess.Popen(['dd', 'if=/dev/urandom', f'of={pool.mnt}/big', 'bs=1M', 'count=300',
                               'conv=fsync'], stderr=subprocess.DEVNULL)
    try:
        writer.wait(60 * SLOW)
    except subprocess.TimeoutExpired:
        pass                            # a suspended pool waits, as failmode=wait says
    zpool('status', pool.name, timeout=30)
    pid = pool.last_pid
    if not os.path.exists(f'/proc/{pid}'):
        raise Failure('the pool process died')
    writer.kill()
    pool.kill()
    writer.wait()
    run(['mount', '-o', 'remount,size=400M', small])
    pool.import_()
    with open(f'{pool.mnt}/keep', 'rb') as f:
        if f.read() != b'keep' * 1000:
            raise Failure('what was synced before')
    pool.export()
    judge.verdict(pool)


@test
def partition(lab):
    """A pool on a partition of a GPT image is found inside the image."""
    maker = lab.pool('gpt', ['280M'])
    with open(f'{maker.mnt}/f', 'wb') as f:
        f.write(b'on a partition')
    maker.export()
    image = lab.image('gpt.img', '300M', 'gpt')
    table = lab.path('table')
    with open(table, 'w') as f:
        f.write('label: gpt\nstart=4M, size=280M, type=6A898CC3-1DD2-11B2-99A6-080020736631\n')
    with open(table, 'rb') as f:
        run(['sfdisk', '-q', image], stdin=f)
    run(['dd', f'if={maker.vdevs[0]}', f'of={image}', 'bs=1M', 'seek=4', 'conv=notrunc,sparse'])
    os.unlink(maker.vdevs[0])
    pool = Pool(lab, maker.name, lab.path('gpt'), [image])
    pool.mnt = maker.mnt
    lab.pools.append(pool)
    pool.import_()
    with open(f'{pool.mnt}/f', 'rb') as f:
        if f.read() != b'on a partition':
            raise Failure('content')
    with open(f'{pool.mnt}/g', 'wb') as f:
        f.write(b'more')
    pool.export()
    run(['sfdisk', '-q', '--verify', image])        # the table is untouched
    if judge.ready():
        loop = run(['losetup', '-f', '--show', '-o', 4 << 20, '--sizelimit', 280 << 20, image]).out
        try:
            folder = lab.path('links')
            os.makedirs(folder)
            os.symlink(loop.strip(), os.path.join(folder, 'part'))
            judge.zdb(folder, pool.name)
        finally:
            run(['losetup', '-d', loop.strip()])


@test
def install_leaves_others_alone(lab):
    """make install does not take the place of somebody else's zpool."""
    target = lab.path('bin')
    os.makedirs(target)
    with open(f'{target}/zpool', 'w') as f:
        f.write('#!/bin/sh\necho theirs\n')
    os.chmod(f'{target}/zpool', 0o755)
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools', 'install')
    r = run([tool, os.path.dirname(BIN), target], env={'DESTDIR': 'x'})
    with open(f'{target}/zpool') as f:
        if 'theirs' not in f.read():
            raise Failure('their zpool is gone')
    if 'zpool' not in r.err or not os.path.islink(f'{target}/zfs'):
        raise Failure(f'{r}\n{os.listdir(target)}')
    run([tool, '--remove', target])
    if os.listdir(target) != ['zpool']:
        raise Failure(f'uninstall left {os.listdir(target)}')


@test
def df_of_the_root(lab):
    """A filled child, unmounted: df of the pool's root is listed and not 0."""
    pool = lab.pool('df')
    zfs('create', f'{pool.name}/child')
    with open(f'{pool.mnt}/child/f', 'wb') as f:
        f.write(os.urandom(100 << 20))
        f.flush()
        os.fsync(f.fileno())
    zfs('unmount', f'{pool.name}/child')
    r = run(['df', '-B1', '--output=size,avail', pool.mnt])
    size, avail = map(int, r.out.splitlines()[1].split())
    if not 0 < avail <= size:
        raise Failure(str(r))
    if pool.mnt not in run(['df'], check=False).out:
        raise Failure('df without arguments does not list it')
    pool.export()


@test
def other_mounts_stay(lab):
    """Mounting and unmounting leaves other FUSE and other mounts where they are."""
    a, b = lab.pool('one'), lab.pool('two')
    with open(f'{a.mnt}/f', 'wb') as f:
        f.write(b'a')
    b.export()
    b.import_()
    with open(f'{a.mnt}/f', 'rb') as f:
        if f.read() != b'a':
            raise Failure('the other pool')
    b.export()
    if not os.path.ismount(a.mnt):
        raise Failure('the other mount is gone')
    a.export()


@test
def unmount_under_load(lab):
    """Export while programs are at work: refused as busy or done, never a crash, nothing lost."""
    pool = lab.pool('load')
    script = f'i=0; while echo $i >{pool.mnt}/f$((i % 50)); do i=$((i + 1)); done 2>/dev/null'
    workers = [subprocess.Popen(['sh', '-c', script]) for _ in range(3)]
    pid = pool.pid()
    for _ in range(100):
        if zpool('export', pool.name, check=False).status == 0:
            break
    else:
        for w in workers:
            w.kill()
            w.wait()
        workers = []
        zpool('export', pool.name)
    wait_gone(pid)
    for w in workers:
        w.kill()
        w.wait()
    pool.last_pid = None
    judge.verdict(pool)


def main():
    need_root()
    report = Report()
    for function in TESTS:
        if sys.argv[1:] and function.__name__ not in sys.argv[1:]:
            continue
        with Lab('errors') as lab:
            report.check(function.__name__, function, lab)
    report.finish()


if __name__ == '__main__':
    main()
