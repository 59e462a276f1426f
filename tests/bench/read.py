#!/usr/bin/env python3
"""read.py [--build DIR] [--rounds N] [--big MIB] [ROW...]: how fast the offline tools read. Ratios of
neighbours in one run, the median of the rounds; the page cache is empty before each of them.

raidz2, mirror   `tarn cat` of one large file in a pool of 6 and of 2 disks; dd reads as many bytes from
                 the images, one after the other. How much of dd's rate: at least 0.8
verify           `tarn verify` of a pool with half of its data in records of 8 KiB; the judge's
                 `zdb -bcc`, less what it takes for an empty pool. The share of zdb's time: at most 0.5
parity           RAID-Z in the processor: the lines of bench_raidz and of the judge's `raidz_test -B`,
                 which takes its time

Needs root; writes three times --big below TARN_TMP (default /var/tmp)."""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
if '--build' in sys.argv[:-1]:
    os.environ['TARN_BUILD'] = sys.argv[sys.argv.index('--build') + 1]
import judge
from lab import BIN, BUILD, Lab, Report, need_root, run, zfs, zpool

TARN = os.path.join(BIN, 'tarn')
MIB = 1 << 20


def timed(argv):
    """Seconds that a command takes from cold images; its output goes nowhere but into the text."""
    subprocess.run(['sync'], check=True)
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('3')
    began = time.monotonic()
    text = run(argv, timeout=3600).out
    return time.monotonic() - began, text


def fill(path, mib):
    chunk = os.urandom(8 * MIB)
    with open(path, 'wb', buffering=0) as f:
        for _ in range(mib // 8):
            f.write(chunk)


def read_ranges(image, size):
    """Commands that read so many bytes of an image with dd, none of them holes."""
    at, words = 8 * MIB, []
    with open(image, 'rb') as f:
        while size > 0:
            start = os.lseek(f.fileno(), at, os.SEEK_DATA)
            at = os.lseek(f.fileno(), start, os.SEEK_HOLE)
            n = min(at - start, size)
            size -= n
            words.append(f'dd if={image} of=/dev/null bs=1M iflag=skip_bytes,count_bytes '
                         f'skip={start} count={n} status=none')
    return words


def large_file(lab, kind, disks, args):
    each = args.big * 2 // (disks - 2 if kind == 'raidz2' else 1) + 256
    pool = lab.pool('big', [f'{each}M'] * disks, create=False)
    create(pool, kind)
    fill(os.path.join(pool.mnt, 'big'), args.big)
    pool.export()
    images = pool.vdevs if kind == 'raidz2' else pool.vdevs[:1]
    read = [dd for image in images for dd in read_ranges(image, args.big * MIB // len(images))]
    cat = f'{TARN} cat {pool.home}:{pool.name}/big >/dev/null'
    rates = []
    for _ in range(args.rounds):
        dd = timed(['sh', '-c', ' && '.join(read)])[0]
        tarn = timed(['sh', '-c', cat])[0]
        rates.append((dd / tarn, args.big * MIB / tarn / 1e9))
    ratio, rate = (statistics.median(r) for r in zip(*rates))
    return f"{ratio:.2f} of dd's rate (at least 0.8), {rate:.2f} GB/s"


def create(pool, kind):
    zpool('create', '-m', pool.mnt, pool.name, kind, *pool.vdevs)


def verify(lab, args):
    tiny = lab.pool('tiny', ['128M'])
    tiny.export()
    pool = lab.pool('blocks', [f'{args.big * 2}M'])
    fill(os.path.join(pool.mnt, 'large'), args.big // 2)
    zfs('create', '-o', 'recordsize=8k', f'{pool.name}/small')
    fill(os.path.join(pool.mnt, 'small', 'records'), args.big // 2)
    pool.export()

    def zdb(p):
        return timed([judge.ORACLE, 'zdb', '-e', '-p', p.home, '-bcc', p.name])[0]
    shares = []
    for _ in range(args.rounds):
        seconds, text = timed([TARN, 'verify', f'{pool.home}:{pool.name}'])
        start = zdb(tiny) if judge.ready() else 0
        reference = zdb(pool) - start if judge.ready() else float('nan')
        shares.append((seconds / reference, reference, start))
    share, reference, start = (statistics.median(s) for s in zip(*shares))
    rate = re.search(r'checked .*', text).group()
    return f"{share:.2f} of zdb's {reference:.1f} s (at most 0.5; its start of {start:.1f} s is left out); {rate}"


def parity():
    ours = run([os.path.join(BUILD, 'tests', 'bench', 'bench_raidz')], timeout=300).out
    theirs = run([judge.ORACLE, 'cmd', 'raidz_test', '-B'], timeout=7200).out if judge.ready() else ''
    return f'\n{ours}\n{theirs}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--build', default=BUILD)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--big', type=int, default=1024, help='MiB')
    parser.add_argument('rows', nargs='*', default=['raidz2', 'mirror', 'verify', 'parity'])
    args = parser.parse_args()
    need_root()
    report = Report()
    for row in args.rows:
        with Lab('bench-read') as lab:
            if row in ('raidz2', 'mirror'):
                report.check(row, large_file, lab, row, 6 if row == 'raidz2' else 2, args)
            elif row == 'verify':
                report.check(row, verify, lab, args)
            else:
                report.check(row, parity)
    report.finish()


if __name__ == '__main__':
    main()
