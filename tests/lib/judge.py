"""The judge: the reference OpenZFS, as programs that run here (zdb) and as a guest with its kernel
module. See tests/judge/oracle."""
import glob
import json
import os
import re
import shutil

from lab import TOP, Failure, run, skip

ORACLE = os.path.join(TOP, 'tests', 'judge', 'oracle')
HOME = os.environ.get('ORACLE_HOME', '/var/cache/zfs-oracle')
TOOLS = os.path.join(TOP, 'tests', 'judge')


def need_judge():
    if os.geteuid() != 0:
        skip('the judge needs root')
    if not os.path.exists(os.path.join(HOME, 'ready')):
        skip('the judge is not set up (tests/judge/oracle setup)')


def ready():
    return os.geteuid() == 0 and os.path.exists(os.path.join(HOME, 'ready'))


def zdb(folder, pool, options=('-bcc', '-d'), timeout=600):
    """The reference's zdb over an exported pool whose images are in folder. A Failure unless every
    block is readable and right, nothing leaked, nothing is claimed twice, and every feature count
    it knows is correct. Returns what it printed."""
    r = run([ORACLE, 'zdb', '-e', '-p', folder, *options, pool], timeout=timeout, check=False)
    r.err = re.sub(r'\r?loading concrete vdev[^\n\r]*', '', r.err).strip()
    text = r.out + r.err
    problems = [line for line in text.splitlines()
                if not line.startswith('Traversing ') and re.search(r'leaked|block claim error|[Gg]ot error|cksum|mismatch|ASSERT|VERIFY|'
                             r'does not match|is incorrect|not correct|unable to|can\'t open|'
                             r'double|nothing.*but|WARNING', line)]
    if r.status != 0 or problems or \
            ('-bcc' in options and 'No leaks (block sum matches space maps exactly)' not in text):
        raise Failure('zdb objects:\n' + '\n'.join(problems[:20]) + f'\n{r}')
    return text


def recheck(images, timeout=600):
    """tests/judge/check.py over the images of one exported pool."""
    r = run([os.path.join(TOOLS, 'check.py'), *images], timeout=timeout, check=False)
    if r.status != 0:
        raise Failure(f'check.py objects:\n{r}')
    return r.out.strip().splitlines()[-1]


def verdict(pool):
    """Both opinions about an exported pool (lab.Pool)."""
    if ready():
        zdb(pool.home, pool.name)
    return recheck(pool.vdevs)


def guest(share, script, timeout=600, memory=2048):
    """Boots the guest with share as its /share and runs script (text) there; returns the output.
    A Failure when the script does not end with 0."""
    path = os.path.join(share, '.guest-script')
    with open(path, 'w') as f:
        f.write(script)
    try:
        r = run([ORACLE, 'vm', '-s', share, '-m', memory, '-t', int(timeout), path],
                timeout=timeout + 60, check=False)
    finally:
        os.unlink(path)
    if r.status != 0:
        raise Failure(f'the guest script failed:\n{r}')
    return r.out


# ---- manifests: lists of all that a tree holds

def manifest(tree, big=1 << 32, timeout=300):
    """The lines of tests/judge/manifest.py over a tree, as {path: entry}."""
    r = run([os.path.join(TOOLS, 'manifest.py'), tree, big], timeout=timeout)
    return parse_manifest(r.out)


def parse_manifest(text):
    rows = [json.loads(line) for line in text.split('\n') if line]
    return {row['path']: row for row in rows}


def read_manifest(path):
    with open(path, encoding='utf8', errors='surrogateescape') as f:
        return parse_manifest(f.read())


def compare(got, want, what, ignore=()):
    """A Failure that lists the first differences of two manifests."""
    lines = []
    for path in sorted(set(got) | set(want)):
        a, b = got.get(path), want.get(path)
        if a is None or b is None:
            lines.append(f'{path!r}: {"missing" if a is None else "too much"}')
            continue
        for key in sorted(set(a) | set(b)):
            if key not in ignore and a.get(key) != b.get(key):
                lines.append(f'{path!r}: {key} is {str(a.get(key))[:120]}, '
                             f'should be {str(b.get(key))[:120]}')
    if lines:
        more = f'\n... {len(lines) - 20} more' if len(lines) > 20 else ''
        raise Failure(f'{what}: {len(lines)} differences\n' + '\n'.join(lines[:20]) + more)


def tree(path, seed, scale='small', timeout=300):
    """Fills path (must not exist yet) with the deterministic tree of tests/judge/tree.py."""
    run([os.path.join(TOOLS, 'tree.py'), path, seed, scale], timeout=timeout)


def tools_for_guest(share):
    """Puts the scripts that a guest needs into its share; returns their folder there."""
    folder = os.path.join(share, '.tools')
    os.makedirs(folder, exist_ok=True)
    for name in glob.glob(os.path.join(TOOLS, '*.py')):
        shutil.copy(name, folder)
    return '/share/.tools'
