#!/usr/bin/env python3
"""user.py: all of it without root: create, import, mount (fusermount3), write, export; and what an
ordinary user must not be able to do."""
import os
import pwd
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'lib'))
from lab import BIN, Failure, Lab, Report, need_program, need_root, run, skip

SCRIPT = r'''
set -eux
cd "$HOME"
truncate -s 200M d1.img
mkdir -p mnt
zpool create -m "$HOME/mnt" NAME "$HOME/d1.img"
mountpoint -q mnt
cp -r /etc/skel mnt/skel; echo hello >mnt/file; mkdir mnt/dir; ln -s file mnt/link
# Beside, not below: fusermount3 can't look into another mount of the user's.
zfs create -o compression=lz4 -o mountpoint="$HOME/sub" NAME/sub
echo below >sub/f
[ "$(stat -c %u mnt/file)" = "$(id -u)" ]
setfattr -n user.a -v b mnt/file 2>/dev/null || true
sync mnt/file
[ "$(zpool get -H -o value health NAME)" = ONLINE ]
zpool get -H -o value tarn:pid NAME >pid
[ "$(stat -c %u "/proc/$(cat pid)")" = "$(id -u)" ]
zpool export NAME
! mountpoint -q mnt
! zpool import -d "$HOME/nothing" NAME
zpool import -d "$HOME" NAME
[ "$(cat mnt/file)" = hello ] && [ "$(cat sub/f)" = below ] && [ "$(readlink mnt/link)" = file ]
rm -r mnt/skel
zfs unmount NAME/sub
zfs mount NAME/sub
[ "$(cat sub/f)" = below ]
zfs destroy NAME/sub
zpool export NAME
'''


def as_nobody(lab, text, name, uid):
    home = lab.path('home')
    if not os.path.isdir(home):
        os.makedirs(home)
        os.chown(home, uid, uid)
        os.chmod(lab.dir, 0o755)
    script = lab.path('script')
    with open(script, 'w') as f:
        f.write(text.replace('NAME', name))
    return run(['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', 'bash', script],
               env={'HOME': home, 'PATH': BIN + ':/usr/local/sbin:/usr/sbin:/sbin:' +
                    os.environ['PATH'], 'XDG_RUNTIME_DIR': '', 'TMPDIR': home}, check=False, timeout=120)


def whole_life(lab, uid):
    name = f'userpool{os.getpid()}'
    r = as_nobody(lab, SCRIPT, name, uid)
    if r.status != 0:
        as_nobody(lab, f'zpool export -f {name}; zpool destroy -f {name}', name, uid)
        raise Failure(str(r))


def not_others(lab, uid):
    """A user can't export, destroy or read the control socket of root's pool."""
    pool = lab.pool('rootpool')
    with open(f'{pool.mnt}/secret', 'w') as f:
        f.write('secret')
    os.chmod(f'{pool.mnt}/secret', 0o600)
    for command in (f'zpool export {pool.name}', f'zpool destroy -f {pool.name}',
                    f'zfs create {pool.name}/x', f'zfs set compression=off {pool.name}',
                    f'cat {pool.mnt}/secret', f'cat {pool.vdevs[0]} >/dev/null; kill {pool.pid()}'):
        r = as_nobody(lab, command, pool.name, uid)
        if r.status == 0:
            raise Failure(f'a user could:\n{r}')
    if pool.get('health') != 'ONLINE':
        raise Failure('the pool is not as it was')
    pool.export()


def other_users_files(lab, uid):
    """allow_other or not: what a user's pool shows to root never runs set-user-id programs."""
    name = f'suidpool{os.getpid()}'
    r = as_nobody(lab, '''set -eux
cd "$HOME"; truncate -s 100M s.img; mkdir -p smnt; zpool create -m "$HOME/smnt" NAME "$HOME/s.img"
cp /usr/bin/id smnt/id; chmod 4755 smnt/id''', name, uid)
    try:
        if r.status != 0:
            raise Failure(str(r))
        options = subprocess.run(['findmnt', '-n', '-o', 'OPTIONS', lab.path('home', 'smnt')],
                                 capture_output=True, text=True, check=False).stdout
        if 'nosuid' not in options or 'nodev' not in options:
            raise Failure(f"a user's mount is {options}")
    finally:
        as_nobody(lab, 'zpool export NAME', name, uid)


def main():
    need_root()
    need_program()
    if not shutil.which('fusermount3'):
        skip('fusermount3 is not installed')
    uid = pwd.getpwnam('nobody').pw_uid
    report = Report()
    with Lab('user-bin') as place:
        # The program must be reachable by the user, wherever the build folder is.
        if subprocess.run(['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', 'test', '-x',
                           f'{BIN}/zpool'], check=False).returncode:
            os.chmod(place.dir, 0o755)
            globals()['BIN'] = shutil.copytree(os.path.realpath(BIN), place.path('bin'), symlinks=False)
            os.chmod(place.path('bin'), 0o755)
        for function in (whole_life, not_others, other_users_files):
            with Lab('user') as lab:
                report.check(function.__name__, function, lab, uid)
    report.finish()


if __name__ == '__main__':
    main()
