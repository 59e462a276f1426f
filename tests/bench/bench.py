#!/usr/bin/env python3
"""bench.py [--build DIR] [--rounds N] [--big MIB] [--small MIB] [--files N] [--only A,B]
         [--floor] [--json FILE]

The table of a file system comparison of old: a large file in, out and within, a tree of small files
in, out and within, removing it, unpacking a tar; on Tarn (both FUSE transports), on ext4 on a loop
file, and on Debian's zfs-fuse. Every writing row includes the flush that makes it durable: `zpool
sync` on Tarn, a snapshot on zfs-fuse, `sync -f` on ext4 (sync never reaches a FUSE server). "cold"
rows follow a remount (an export and import) and dropped caches.

All systems do each round one after the other; what counts is the ratio to ext4 in the same round,
and of those the median. Then the memory high-water of the pool process, and the cost of one
operation in a directory of 10^3 to 10^6 files (--files is the largest; 0 leaves it out).
Needs root; writes below TARN_TMP (default /var/tmp) and /dev/shm."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
if '--build' in sys.argv[:-1]:
    os.environ['TARN_BUILD'] = sys.argv[sys.argv.index('--build') + 1]
from lab import (BUILD, Failure, Lab, LoopFs, need_root, run, unmount_below, wait_gone,
                 wait_until)

URING = '/sys/module/fuse/parameters/enable_uring'
ROWS = ['mkfile', 'big from tmp', 'big to tmp, cold', 'big again', 'big copy', 'small from tmp',
        'small to tmp, cold', 'small copy', 'small del', 'untar']
# The most that a row may take of ext4's time in the same run.
TARGETS = {
    'tarn io_uring': {'mkfile': 1.3, 'big from tmp': 1.3, 'big to tmp, cold': 1.3, 'big copy': 1.3,
                      'small from tmp': 1.8, 'small to tmp, cold': 1.2, 'small copy': 2.2,
                      'small del': 1.8, 'untar': 2.8},
    'tarn /dev/fuse': {'mkfile': 1.5, 'big from tmp': 1.5, 'big to tmp, cold': 1.5, 'big copy': 1.5,
                       'small from tmp': 2.8, 'small to tmp, cold': 1.6, 'small copy': 3.3,
                       'small del': 3.3, 'untar': 4.5},
}


def drop_caches():
    subprocess.run(['sync'], check=True)
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('3')


# ---- the systems: mnt, flush(), remount(), close(), memory()

class Ext4:
    name = 'ext4'

    def __init__(self, lab):
        self.fs = LoopFs(lab, 'ext4', '16G')
        self.mnt = self.fs.mnt

    def flush(self):
        subprocess.run(['sync', '-f', self.mnt], check=True)

    def remount(self):
        run(['umount', self.mnt])
        run(['mount', '-o', 'loop', self.fs.image, self.mnt])

    def memory(self):
        return None

    def close(self):
        run(['umount', self.mnt], check=False)
        os.unlink(self.fs.image)


class ZfsFuse:
    """Debian's zfs-fuse, with the timeouts its documentation advises."""
    name = 'zfs-fuse'
    program = '/usr/sbin/zfs-fuse'

    def __init__(self, lab):
        if not os.path.exists(self.program):
            raise Failure('zfs-fuse is not installed')
        self.home, self.mnt = lab.path('zfuse'), lab.path('zfuse-mnt')
        self.image = lab.image('disk.img', '16G', 'zfuse')
        self.pool = f'zfuse{os.getpid()}'
        self.pid_file = lab.path('zfs-fuse.pid')
        for cache in ('/var/lib/zfs/zpool.cache', '/etc/zfs/zpool.cache'):
            if os.path.exists(cache):
                raise Failure(f'{cache} is there: somebody uses zfs-fuse on this machine')
        if os.path.exists('/var/run/zfs/zfs_socket'):
            os.unlink('/var/run/zfs/zfs_socket')
        run([self.program, '-p', self.pid_file, '--no-kstat-mount', '-a', '60', '-e', '60'])
        wait_until(lambda: self.zpool('list', check=False).status == 0, 'zfs-fuse to answer')
        with open(self.pid_file) as f:
            self.pid = int(f.read())
        self.zpool('create', '-m', self.mnt, self.pool, self.image)

    @staticmethod
    def zpool(*args, check=True):
        return run(['/usr/sbin/zpool', *args], check=check, timeout=300)

    def flush(self):
        run(['/usr/sbin/zfs', 'snapshot', f'{self.pool}@flush'], timeout=300)
        run(['/usr/sbin/zfs', 'destroy', f'{self.pool}@flush'], timeout=300)

    def remount(self):
        self.zpool('export', self.pool)
        self.zpool('import', '-d', self.home, self.pool)

    def memory(self):
        return high_water(self.pid)

    def close(self):
        self.zpool('destroy', '-f', self.pool, check=False)
        os.kill(self.pid, 15)
        try:
            wait_gone(self.pid, 20)
        except Failure:
            os.kill(self.pid, 9)
        unmount_below(self.mnt)
        for left in (self.image, '/var/lib/zfs/zpool.cache', '/var/run/zfs/zfs_socket'):
            if os.path.exists(left):
                os.unlink(left)


class Tarn:
    def __init__(self, lab, uring):
        self.name = 'tarn io_uring' if uring else 'tarn /dev/fuse'
        set_uring(uring)
        self.pool = lab.pool('bench', ['16G'])
        self.mnt = self.pool.mnt
        r = run([os.path.join(BUILD, 'bin', 'zpool'), 'get', '-H', '-o', 'value', 'tarn:transport',
                 self.pool.name], check=False)
        self.transport = r.out.strip()
        self.high = 0

    def flush(self):
        self.pool.sync()

    def remount(self):
        self.high = max(self.high, self.pool.memory_high())
        self.pool.export()
        self.pool.import_()

    def memory(self):
        return max(self.high, self.pool.memory_high())

    def close(self):
        self.pool.export()
        for image in self.pool.vdevs:
            os.unlink(image)


class Floor:
    """A file system in memory behind Tarn's transport: what FUSE alone costs on this machine. It
    has nothing to flush; a remount only drops the kernel's caches."""

    def __init__(self, lab, uring):
        self.name = 'floor io_uring' if uring else 'floor /dev/fuse'
        self.mnt = lab.path('floor-mnt')
        os.makedirs(self.mnt)
        set_uring(uring)
        self.process = subprocess.Popen(
            [os.path.join(BUILD, 'tests', 'fuse', 'memfs_mount'), self.mnt],
            stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith('mounted'):
            raise Failure('memfs_mount does not mount')

    def flush(self):
        pass

    def remount(self):
        pass

    def memory(self):
        return None

    def close(self):
        self.process.terminate()
        self.process.wait(20)


def high_water(pid):
    with open(f'/proc/{pid}/status') as f:
        for line in f:
            if line.startswith('VmHWM:'):
                return int(line.split()[1]) << 10
    return None


def set_uring(on):
    if os.path.exists(URING):
        with open(URING, 'w') as f:
            f.write('Y' if on else 'N')


def uring_state():
    try:
        with open(URING) as f:
            return f.read().strip()
    except OSError:
        return None


# ---- the material, in memory

class Material:
    def __init__(self, big, small):
        self.dir = f'/dev/shm/tarn-bench-{os.getpid()}'
        os.makedirs(self.dir)
        self.big_size = big << 20
        self.chunk = os.urandom(8 << 20)
        self.big, self.tree = f'{self.dir}/big', f'{self.dir}/tree'
        self.write_big(self.big)
        self.files = self.gather(small << 20)
        self.tar = f'{self.dir}/tree.tar'
        run(['tar', '-C', self.dir, '-cf', self.tar, 'tree'], timeout=300)

    def write_big(self, path):
        with open(path, 'wb', buffering=0) as f:
            left = self.big_size
            while left:
                left -= f.write(self.chunk[:min(left, len(self.chunk))])

    def gather(self, limit):
        """A part of /usr: its small files, until there are enough."""
        files = size = 0
        for top, dirs, names in os.walk('/usr'):
            dirs.sort()
            target = self.tree + top[len('/usr'):]
            for name in sorted(names):
                path = os.path.join(top, name)
                st = os.lstat(path)
                if os.path.islink(path) or st.st_size > 1 << 20 or size + st.st_size > limit:
                    continue
                os.makedirs(target, exist_ok=True)
                shutil.copy2(path, os.path.join(target, name))
                files += 1
                size += st.st_size
            if size > limit * 0.99:
                break
        return files

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def timed(command, flush=None):
    began = time.monotonic()
    if callable(command):
        command()
    else:
        run(command, timeout=3600)
    if flush:
        flush()
    return time.monotonic() - began


def one_round(system, m):
    """Seconds per row."""
    at = os.path.join(system.mnt, 'bench')
    out = os.path.join(m.dir, 'out')
    os.makedirs(at)
    os.makedirs(out)
    t = {}
    t['mkfile'] = timed(lambda: m.write_big(f'{at}/mkfile'), system.flush)
    t['big from tmp'] = timed(['cp', m.big, f'{at}/big'], system.flush)
    system.remount()
    drop_caches()
    t['big to tmp, cold'] = timed(['cp', f'{at}/big', f'{out}/big'])
    os.unlink(f'{out}/big')
    t['big again'] = timed(['dd', f'if={at}/big', 'of=/dev/null', 'bs=1M', 'status=none'])
    t['big copy'] = timed(['cp', f'{at}/big', f'{at}/copy'], system.flush)
    for name in ('mkfile', 'big', 'copy'):
        os.unlink(f'{at}/{name}')
    system.flush()
    t['small from tmp'] = timed(['cp', '-R', m.tree, f'{at}/tree'], system.flush)
    system.remount()
    drop_caches()
    t['small to tmp, cold'] = timed(['cp', '-R', f'{at}/tree', f'{out}/tree'])
    shutil.rmtree(f'{out}/tree')
    t['small copy'] = timed(['cp', '-R', f'{at}/tree', f'{at}/copy'],
                            system.flush)
    t['small del'] = timed(['rm', '-rf', f'{at}/copy'], system.flush)
    os.mkdir(f'{at}/untar')
    t['untar'] = timed(['tar', '-C', f'{at}/untar', '-xf', m.tar], system.flush)
    shutil.rmtree(at)
    shutil.rmtree(out)
    system.flush()
    return t


def curve(system, most):
    """{files: microseconds per operation} of making, finding, listing and removing names in one
    directory."""
    rows = {}
    count = 1000
    while count <= most:
        top = os.path.join(system.mnt, 'many')
        os.mkdir(top)
        fd = os.open(top, os.O_RDONLY)
        row = {}

        def each(what, call):
            began = time.monotonic()
            for i in range(count):
                call(f'file-{i * 7919 % count:07d}')
            system.flush()
            row[what] = (time.monotonic() - began) / count * 1e6
        each('create', lambda n: os.close(os.open(n, os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
        system_remount(system, fd)
        fd = os.open(top, os.O_RDONLY)
        began = time.monotonic()
        if len(os.listdir(fd)) != count:
            raise Failure('a listing is not whole')
        row['list'] = (time.monotonic() - began) / count * 1e6
        each('stat', lambda n: os.stat(n, dir_fd=fd))
        each('unlink', lambda n: os.unlink(n, dir_fd=fd))
        os.close(fd)
        os.rmdir(top)
        rows[count] = row
        count *= 10
    return rows


def system_remount(system, fd):
    os.close(fd)
    system.remount()
    drop_caches()


# ---- the run

def table(results, systems):
    """{system: {row: median ratio}} and the printed table."""
    medians, ratios = {}, {}
    for name in systems:
        rounds = results[name]
        medians[name] = {row: statistics.median(r[row] for r in rounds) for row in ROWS}
        ratios[name] = {row: statistics.median(r[row] / e[row] for r, e in
                                               zip(rounds, results['ext4'])) for row in ROWS}
    others = [s for s in systems if s != 'ext4']
    print(f'\n{"":20} {"ext4":>9}' + ''.join(f' {s:>24}' for s in others))
    for row in ROWS:
        line = f'{row:20} {medians["ext4"][row]:7.2f} s'
        for s in others:
            target = TARGETS.get(s, {}).get(row)
            note = ''
            if target:
                note = f'(<= {target})' if ratios[s][row] <= target else f'(MORE than {target})'
            line += f' {ratios[s][row]:6.2f} {note:>17}'
        print(line)
    if 'zfs-fuse' in systems:
        for s in others:
            slower = [row for row in ROWS if s.startswith('tarn') and
                      ratios[s][row] > ratios['zfs-fuse'][row]]
            if slower:
                print(f'{s} is slower than zfs-fuse in: {", ".join(slower)}')
    return medians, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[1])
    parser.add_argument('--build', default=BUILD)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--big', type=int, default=1024)
    parser.add_argument('--small', type=int, default=1024)
    parser.add_argument('--files', type=int, default=10**6)
    parser.add_argument('--only', default='')
    parser.add_argument('--floor', action='store_true')
    parser.add_argument('--json', default='')
    args = parser.parse_args()
    need_root()
    free = os.statvfs('/dev/shm')
    if free.f_bavail * free.f_frsize < (args.big * 2 + args.small * 3) << 20:
        args.big, args.small = args.big // 4, args.small // 4
        print(f'/dev/shm is small: {args.big} and {args.small} MiB instead')
    kinds = {'ext4': Ext4, 'zfs-fuse': ZfsFuse, 'tarn /dev/fuse': lambda lab: Tarn(lab, False),
             'tarn io_uring': lambda lab: Tarn(lab, True)}
    if args.floor:
        kinds['floor /dev/fuse'] = lambda lab: Floor(lab, False)
        kinds['floor io_uring'] = lambda lab: Floor(lab, True)
    before = uring_state()
    if before is None:
        print('this kernel has no FUSE over io_uring: that column is left out')
        kinds = {k: v for k, v in kinds.items() if 'io_uring' not in k}
    wanted = [k for k in kinds if not args.only or k in args.only.split(',') or k == 'ext4' or
              k.startswith('floor')]
    results, memory, curves = {}, {}, {}
    print('making the material ...', flush=True)
    material = Material(args.big, args.small)
    print(f'a file of {args.big} MiB; {material.files} files, {args.small} MiB; flush included; '
          f'ratios to ext4 in the same round, median of {args.rounds}', flush=True)
    try:
        for turn in range(args.rounds):
            # The order changes, so that nobody always comes after the same one.
            for name in wanted[turn % len(wanted):] + wanted[:turn % len(wanted)]:
                with Lab('bench') as lab:
                    try:
                        system = kinds[name](lab)
                    except Failure as e:
                        if name == 'ext4':
                            raise
                        print(f'{name}: left out: {str(e).splitlines()[0]}')
                        wanted.remove(name)
                        continue
                    results.setdefault(name, []).append(one_round(system, material))
                    memory[name] = max(memory.get(name, 0), system.memory() or 0)
                    system.close()
                print(f'round {turn + 1}: {name}', flush=True)
        medians, ratios = table(results, [n for n in kinds if n in results])
        for name in wanted:
            if args.files and name != 'zfs-fuse' and not name.startswith('floor'):
                with Lab('bench') as lab:
                    system = kinds[name](lab)
                    curves[name] = curve(system, args.files)
                    memory[name] = max(memory.get(name, 0), system.memory() or 0)
                    system.close()
        for name, rows in curves.items():
            print(f'\n{name}: microseconds per operation in one directory')
            print(f'{"files":>10}' + ''.join(f'{k:>10}' for k in ('create', 'list', 'stat',
                                                                 'unlink')))
            for count, row in rows.items():
                print(f'{count:>10}' + ''.join(f'{row[k]:>10.1f}' for k in
                                               ('create', 'list', 'stat', 'unlink')))
        for name, size in memory.items():
            if size:
                print(f'memory high-water of {name}: {size >> 20} MiB')
        if args.json:
            with open(args.json, 'w') as f:
                json.dump({'medians': medians, 'ratios': ratios, 'rounds': results,
                           'memory': memory, 'curves': curves}, f, indent=1)
    finally:
        material.close()
        if before is not None:
            set_uring(before == 'Y')
    return 0


if __name__ == '__main__':
    sys.exit(main())
