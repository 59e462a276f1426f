#!/usr/bin/env python3
"""keys.py: encrypted datasets of a pool made by the reference (tests/fixtures/crypt): listed without
their keys, mounted with them; what commands say, and their exit statuses, as the reference's."""
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import TOP, Failure, Lab, Pool, Report, need_program, need_root, need_tools, run, wait_until, zfs, zpool, BIN

FOLDER = os.path.join(TOP, 'tests', 'fixtures')
PASSPHRASE = 'correct horse\n'


class Case:
    def __init__(self, lab):
        self.home = lab.path('crypt')
        subprocess.run(f'zstd -q -d --long=31 -c "{FOLDER}/crypt.tar.zst" | tar x -C "{lab.dir}"',
                       shell=True, check=True)
        self.pool = Pool(lab, 'crypt', self.home, [os.path.join(self.home, 'disk0.img')])
        self.file = 'file://' + os.path.join(self.home, 'raw.key')
        lab.pools.append(self.pool)

    def say(self, text, argv, status=0, out='', err=''):
        """A command with text on its standard input; what it prints must be exactly this."""
        with tempfile.TemporaryFile() as source:
            source.write(text.encode())
            source.seek(0)
            r = run([os.path.join(BIN, argv[0]), *argv[1:]], check=False, stdin=source)
        if (r.status, r.out, r.err) != (status, out, err):
            raise Failure(f'expected status {status}\n{out}{err}{r}')

    def fails(self, text, argv, err, out='', status=255):
        self.say(text, argv, status, out, err + '\n')

    def open(self):
        self.pool.import_('-o', 'readonly=on', '-R', self.pool.mnt)

    def listed(self):
        got = zfs('list', '-Hr', '-o', 'name,encryption,keyformat,keystatus,encryptionroot,mounted',
                  'crypt').out
        want = ('crypt\toff\tnone\t-\t-\tyes\n'
                'crypt/pass\taes-256-gcm\tpassphrase\tunavailable\tcrypt/pass\tno\n'
                'crypt/pass/child\taes-256-gcm\tpassphrase\tunavailable\tcrypt/pass\tno\n'
                'crypt/raw\taes-128-ccm\traw\tunavailable\tcrypt/raw\tno\n')
        if got != want:
            raise Failure(f'{got}instead of\n{want}')
        if zfs('get', '-H', '-o', 'value', 'casesensitivity', 'crypt/pass').out != 'sensitive\n':
            raise Failure('what is not encrypted cannot be read without the key')

    def refused(self):
        no_key = "cannot mount 'crypt/pass': encryption key not loaded"
        self.fails('', ['zfs', 'mount', 'crypt/pass'], no_key, status=1)
        self.say('', ['zfs', 'mount', '-a'])
        wrong = "Key load error: Incorrect key provided for 'crypt/pass'."
        self.fails('wrong horse\n', ['zfs', 'load-key', 'crypt/pass'], wrong)
        self.fails('wrong horse\n', ['zfs', 'load-key', '-n', 'crypt/pass'], wrong,
                   '0 / 1 key(s) successfully verified\n')
        self.fails('', ['zfs', 'load-key', 'crypt/pass'], 'Key load error: encryption failure')
        self.fails('', ['zfs', 'load-key', 'crypt/pass/child'],
                   "Key load error: Keys must be loaded for encryption root of "
                   "'crypt/pass/child' (crypt/pass).")
        self.fails('', ['zfs', 'load-key', 'crypt'],
                   "Key load error: 'crypt' is not encrypted.")
        self.fails('', ['zfs', 'load-key', 'crypt/nosuch'],
                   "cannot open 'crypt/nosuch': dataset does not exist", status=1)
        self.fails('', ['zfs', 'load-key', '-L', 'file:///nosuch', 'crypt/raw'],
                   'Key load error: Failed to open key material file: No such file or directory')
        for n, word in ((31, 'short'), (33, 'long')):
            path = os.path.join(self.home, f'key{n}')
            with open(path, 'wb') as f:
                f.write(bytes(n))
            self.fails('', ['zfs', 'load-key', '-L', f'file://{path}', 'crypt/raw'],
                       f'Key load error: Raw key too {word} (expected 32).')

    def loaded(self):
        self.say(PASSPHRASE, ['zfs', 'load-key', '-n', 'crypt/pass'],
                 out='1 / 1 key(s) successfully verified\n')
        self.say('', ['zfs', 'load-key', '-L', self.file, 'crypt/raw'])
        self.fails('', ['zfs', 'load-key', '-L', self.file, 'crypt/raw'],
                   "Key load error: Key already loaded for 'crypt/raw'.")
        self.say(PASSPHRASE, ['zfs', 'load-key', '-r', 'crypt'],
                 out='1 / 1 key(s) successfully loaded\n')
        self.say('', ['zfs', 'load-key', '-r', 'crypt'])
        self.say('', ['zfs', 'mount', '-a'])
        top = zfs('get', '-H', '-o', 'value', 'mountpoint', 'crypt').out.strip()
        path = os.path.join(self.home, 'manifest.jsonl')
        judge.compare(judge.manifest(top), judge.read_manifest(path), path)

    def unloaded(self):
        busy = "Key unload error: 'crypt/pass' is busy."
        self.fails('', ['zfs', 'unload-key', 'crypt/pass'], busy)
        self.fails('', ['zfs', 'unload-key', '-a'],
                   f"{busy}\nKey unload error: 'crypt/raw' is busy.",
                   '0 / 2 key(s) successfully unloaded\n')
        self.say('', ['zfs', 'unmount', 'crypt/pass'])
        self.say('', ['zfs', 'unload-key', 'crypt/pass'])
        self.fails('', ['zfs', 'unload-key', 'crypt/pass'],
                   "Key unload error: Key already unloaded for 'crypt/pass'.")
        self.say('', ['zfs', 'unmount', 'crypt/raw'])
        self.say('', ['zfs', 'unload-key', '-r', 'crypt'],
                 out='1 / 1 key(s) successfully unloaded\n')
        self.say('', ['zfs', 'unload-key', '-a'])
        self.fails('', ['zfs', 'mount', 'crypt/raw'],
                   "cannot mount 'crypt/raw': encryption key not loaded", status=1)

    def interrupted(self):
        """Ctrl-C at the question for a key ends the command and leaves the terminal showing again."""
        pid, fd = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
            os.execv(os.path.join(BIN, 'zfs'), ['zfs', 'load-key', 'crypt/pass'])
        try:
            said = b''
            while b'Enter passphrase' not in said:
                said += os.read(fd, 1000)
            wait_until(lambda: not termios.tcgetattr(fd)[3] & termios.ECHO, 'a silent terminal')
            os.write(fd, b'\x03')
            wait_until(lambda: termios.tcgetattr(fd)[3] & termios.ECHO, 'a terminal that shows what is typed')
            status = os.waitpid(pid, 0)[1]
            pid = 0
            if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGINT:
                raise Failure(f'status {status}')
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(fd)

    def mount_with_key(self):
        self.say(PASSPHRASE, ['zfs', 'mount', '-l', 'crypt/pass'])
        self.say('', ['zfs', 'unmount', 'crypt/pass'])

    def import_with_keys(self):
        self.pool.export()
        self.say(PASSPHRASE, ['zpool', 'import', '-l', '-d', self.home, '-o', 'readonly=on', '-R',
                              self.pool.mnt, 'crypt'], 1, '1 / 2 keys successfully loaded\n',
                 'Key load error: Failed to open key material file: No such file or directory\n')
        mounted = [line.split()[0] for line in zfs('mount').out.splitlines()]
        if mounted != ['crypt', 'crypt/pass', 'crypt/pass/child']:
            raise Failure(f'mounted: {mounted}')
        zpool('export', 'crypt')


def main():
    need_root()
    need_tools('zstd')
    need_program()
    report = Report()
    with Lab('keys') as lab:
        os.environ['TARN_RUN_DIR'] = lab.path('run')
        os.makedirs(lab.path('run'), mode=0o700)
        case = Case(lab)
        if report.check('import', case.open):
            for step in ('listed', 'refused', 'interrupted', 'loaded', 'unloaded', 'mount_with_key',
                         'import_with_keys'):
                report.check(step, getattr(case, step))
        lab.pools.clear()
    report.finish()


if __name__ == '__main__':
    main()
