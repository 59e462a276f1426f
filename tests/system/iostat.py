#!/usr/bin/env python3
"""iostat.py: what zpool iostat prints. The reference's lines for the same, numbers apart, are the measure; the
numbers of vdevs must be the sums of their devices."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from lab import Failure, Lab, Report, need_program, need_root, zpool

HEAD = '''\
              capacity     operations     bandwidth 
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
'''
EXACT_HEAD = '''\
                        capacity                         operations                         bandwidth           
pool                  alloc             free             read            write             read            write
----------  ---------------  ---------------  ---------------  ---------------  ---------------  ---------------
'''


def out(*args):
    return zpool('iostat', *args).out


def want(is_so, text):
    if not is_so:
        raise Failure(text)


def heads(pool):
    text = out(pool.name)
    width = max(10, len(pool.name))
    wide = [' ' * (width - 10) + HEAD.split('\n')[0], 'pool' + ' ' * (width - 10) + HEAD.split('\n')[1][4:],
            '-' * (width - 10) + HEAD.split('\n')[2]]
    want(text.split('\n')[:3] == wide, text)
    want(re.fullmatch(pool.name + r' *( +[\d.]+[KM]?){6}', text.split('\n')[3]), text)
    text = out('-p', pool.name)
    want(text.split('\n')[0].strip() == EXACT_HEAD.split('\n')[0].strip(), text)
    text = out('-n', pool.name, '0.01', '3')
    want(len(text.split('\n')) == 7, text)
    text = out('-v', pool.name, '0.01', '2')
    want(text.count('capacity') == 2, text)


def sums(pool):
    with open(os.path.join(pool.mnt, 'file'), 'wb') as f:
        f.write(os.urandom(8 << 20))
    pool.sync()
    rows = [line.split('\t') for line in out('-Hpv', pool.name).split('\n') if line]
    names = [r[0] for r in rows]
    want(names == [pool.name, 'mirror-0', pool.vdevs[0], pool.vdevs[1], 'mirror-1', *pool.vdevs[2:4]], f'{names}')
    n = [[int(c) for c in r[1:]] for r in rows]
    for group, parts in ((0, (1, 4)), (1, (2, 3)), (4, (5, 6))):
        for column in range(2, 6):
            total = sum(n[p][column] for p in parts)
            want(0 <= n[group][column] - total <= len(parts), f'{rows}') # each is rounded down
    want(n[0][5] > 0 and n[0][0] > 8 << 20, f'{rows}')
    one = out('-H', pool.name, pool.vdevs[1], 'mirror-1').split('\n')
    want([line.split('\t')[0] for line in one[:-1]] == [pool.vdevs[1], 'mirror-1'], f'{one}')


def refusals(pool):
    for args, status, sentence in (
            (['nopool'], 1, 'Unable to parse pools/vdevs list'),
            ([pool.name, 'nothing'], 2, f'Expected either a list of pools, or list of vdevs in "{pool.name}"'),
            ([pool.name, '0'], 2, 'interval cannot be zero'), ([pool.name, '1', '0'], 2, 'interval cannot be zero'),
            (['-l'], 2, '-l is not supported yet'), (['-T', 'x'], 2, "invalid timestamp format 'x'")):
        r = zpool('iostat', *args, check=False)
        want(r.status == status and sentence in r.err, f'{r}')


def main():
    need_root()
    need_program()
    report = Report()
    with Lab('iostat') as lab:
        pool = lab.pool('io', ['96M'] * 4, create=False)
        zpool('create', '-m', pool.mnt, pool.name, 'mirror', *pool.vdevs[:2], 'mirror', *pool.vdevs[2:])
        for check in (heads, sums, refusals):
            report.check(check.__name__, check, pool)
    report.finish()


if __name__ == '__main__':
    main()
