#!/usr/bin/env python3
"""run.py DIR [PATTERN...]: runs the POSIX tests in fresh directories below DIR, each in a process of
its own with a time limit, and prints a line for each. PATTERN selects by name."""
import fnmatch
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import case
import attrs, content, names, sharing  # noqa: F401  (they register their tests)
from lab import SLOW, seed

LIMIT = 90


def in_child(function, folder, writer):
    os.umask(0o022)
    os.chdir(folder)
    try:
        function(folder)
        os._exit(0)
    except case.Skip as e:
        os.write(writer, str(e).encode())
        os._exit(77)
    except BaseException:
        os.write(writer, traceback.format_exc(limit=-3).encode('utf8', 'replace')[:60000])
        os._exit(1)


def run_case(function, top):
    """('ok' | 'not ok' | 'skip', text)"""
    folder = tempfile.mkdtemp(prefix=function.__name__ + '-', dir=top)
    os.chmod(folder, 0o755)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(reader)
        in_child(function, folder, writer)
    os.close(writer)
    fd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    done = poll.poll(LIMIT * SLOW * 1000)
    if not done:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    os.set_blocking(reader, False)
    text = b''
    try:
        while chunk := os.read(reader, 65536):
            text += chunk
    except BlockingIOError:
        pass
    os.close(reader)
    text = text.decode()
    if not done:
        return 'not ok', f'no end within {LIMIT * SLOW:.0f} s'
    if os.WIFSIGNALED(status):
        return 'not ok', f'died of signal {os.WTERMSIG(status)}'
    code = os.waitstatus_to_exitcode(status)
    try:
        shutil.rmtree(folder)
    except OSError as e:
        if code == 0:
            return 'not ok', f'removing what the test left: {e}'
    return {0: 'ok', 77: 'skip'}.get(code, 'not ok'), text


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    top, patterns = os.path.abspath(sys.argv[1]), sys.argv[2:]
    value = seed()
    failed = 0
    for function in case.CASES:
        name = function.__name__
        if patterns and not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        if name in os.environ.get('POSIX_WITHOUT', '').split():
            continue
        case.rng.seed(f'{value} {name}')
        began = time.monotonic()
        verdict, text = run_case(function, top)
        took = time.monotonic() - began
        if verdict == 'skip':
            print(f'skip - {name}: {text}', flush=True)
            continue
        print(f'{verdict} - {name}' + (f' ({took:.1f} s)' if took > 1 else ''), flush=True)
        if verdict == 'not ok':
            failed += 1
            for line in text.splitlines():
                print(f'    {line}', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
