#!/usr/bin/env python3
"""record.py NAME...: runs the sessions NAME.cmds on the reference, in the judge's guest, and writes
NAME.txt."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
import judge
import session
from lab import Lab


def script(name):
    out = ['export V=/v M=/m; mkdir -p $V $M; cd /',
           'r() { echo "\\$ $1"; eval "$1" >/tmp/o 2>/tmp/e; rc=$?; awk \'{print "  " $0}\' /tmp/o;',
           '  awk \'{print "! " $0}\' /tmp/e; echo "= $rc"; echo; }']
    for kind, command in session.commands(name):
        quoted = "'" + command.replace("'", "'\\''") + "'"
        out.append(command if kind == 'x' else f'r {quoted}')
        if '-v' in sys.argv:
            out.append('date +"@ %T"')
    out.append('zpool export -a; rm -rf /v /m')
    return '\n'.join(out)


def main():
    judge.need_judge()
    for name in [a for a in sys.argv[1:] if a != '-v']:
        with Lab('record') as lab:
            text = judge.guest(lab.dir, script(name), timeout=900)
        blocks = session.parse(text)
        expected = [c for k, c in session.commands(name) if k != 'x']
        if [b.command for b in blocks] != expected:
            missing = [c for c in expected if c not in {b.command for b in blocks}]
            sys.exit(f'{name}: {len(blocks)} of {len(expected)} commands recorded, not {missing}\n'
                     f'{text}')
        with open(os.path.join(HERE, name + '.txt'), 'w', encoding='utf8') as f:
            f.write('\n\n'.join(map(str, blocks)) + '\n')
        print(f'{name}: {len(blocks)} commands')


if __name__ == '__main__':
    main()
