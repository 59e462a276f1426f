#!/usr/bin/env python3
"""replay.py [NAME...]: runs recorded sessions on Tarn and compares with the reference's answers."""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
import session
from lab import BIN, Failure, Lab, Report, need_program, need_root, run

# Pools of the sessions; on this machine they get names that nobody else has.
POOLS = ['tank', 'two', 'three', 'newname', 'other']


class Replay:
    def __init__(self, lab, name):
        self.lab, self.name = lab, name
        self.v, self.m = lab.path('v'), lab.path('m')
        os.makedirs(self.v)
        os.makedirs(self.m)
        # A run folder of its own: the pools of others on this machine are not seen.
        os.makedirs(lab.path('run'), mode=0o700)
        self.env = {'V': self.v, 'M': self.m, 'PATH': BIN + ':' + os.environ['PATH'],
                    'TARN_RUN_DIR': lab.path('run')}
        self.unique = {p: f'{p}q{os.getpid()}' for p in POOLS}

    def ours(self, command):
        """The command with our pool names."""
        for pool, name in self.unique.items():
            command = re.sub(rf'(?<![\w/]){pool}(?![\w])', name, command)
            command = command.replace(f'$M/{pool}', f'$M/{name}')
        return command

    def theirs(self, text):
        """Output in the words of the recording."""
        text = text.replace(self.v, '/v').replace(self.m, '/m')
        for pool, name in self.unique.items():
            text = text.replace(name, pool)
        return text

    def run(self, command):
        r = run(['sh', '-c', self.ours(command)], env=self.env, cwd='/', check=False, timeout=120)
        lines = ['  ' + line for line in self.theirs(r.out).splitlines()]
        lines += ['! ' + line for line in self.theirs(r.err).splitlines()]
        return session.Block(command, session.without_prose(lines), r.status)

    def end(self):
        for name in self.unique.values():
            run(['sh', '-c', f'zpool destroy -f {name}'], check=False, env=self.env)


def compare(got, want, kind):
    text = session.difference(got, want, kind)
    if text:
        raise Failure(text)


def main():
    need_root()
    need_program()
    names = sys.argv[1:] or sorted(os.path.basename(p)[:-5]
                                   for p in glob.glob(os.path.join(HERE, '*.cmds')))
    report = Report()
    for name in names:
        wanted = iter(session.answers(name))
        with Lab('golden') as lab:
            replay = Replay(lab, name)
            try:
                for i, (kind, command) in enumerate(session.commands(name), 1):
                    try:
                        got = replay.run(command)
                    except Failure as e:
                        got = session.Block(command, [f'! {e}'], -1)
                    if kind != 'x':
                        report.check(f'{name} {i}: {command}', compare, got, next(wanted),
                                     kind)
            finally:
                replay.end()
    report.finish()


if __name__ == '__main__':
    main()
