#!/usr/bin/env python3
"""quotas.py [NAME...]: quotas of users, groups and projects, set, shown, enforced; then the judge."""
import errno
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import Failure, Lab, Report, need_root, zfs

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def equal(got, want, what=''):
    if got != want:
        raise Failure(f'{what}: {got!r}, should be {want!r}')


def fill(pool, path, limit, uid=None):
    """Writes until EDQUOT, with a sync after each MiB; how much went in."""
    done = 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        if uid is not None:
            os.fchown(fd, uid, uid)
        while done < limit:
            os.write(fd, os.urandom(1 << 20))
            done += 1 << 20
            pool.sync()
    except OSError as e:
        if e.errno != errno.EDQUOT:
            raise
    finally:
        os.close(fd)
    return done


@test
def users(pool):
    """A user's bytes and files are limited; the limits are shown, listed, and can be lifted."""
    name, top = f'{pool.name}/u', f'{pool.mnt}/u'
    zfs('create', name)
    zfs('set', 'userquota@1234=5M', 'userobjquota@1234=3', name)
    got = zfs('get', '-H', '-o', 'property,value,source', 'userquota@1234,userobjquota@1234', name)
    equal(got.out.splitlines(), ['userquota@1234\t5M\tlocal', 'userobjquota@1234\t3\tlocal'])
    done = fill(pool, f'{top}/f', 20 << 20, 1234)
    if not 4 << 20 <= done <= 7 << 20:
        raise Failure(f'{done} bytes could be written with a quota of 5M')
    equal(fill(pool, f'{top}/root', 7 << 20), 7 << 20, 'another user')
    row = zfs('userspace', '-Hp', '-n', '-o', 'type,name,quota,objused,objquota', name).out.splitlines()
    equal(row, ['POSIX User\t0\t0\t2\t0', 'POSIX User\t1234\t5242880\t1\t3'], 'userspace')
    used = int(zfs('get', '-Hp', '-o', 'value', 'userused@1234', name).out)
    if not done <= used < done * 1.1:
        raise Failure(f'{used} bytes used, {done} written')
    zfs('set', 'userquota@1234=none', name)
    equal(zfs('get', '-H', '-o', 'value', 'userquota@1234', name).out.strip(), 'none')
    for i in range(2):
        fill(pool, f'{top}/g{i}', 1, 1234)

    def one_more():
        os.chdir(top)  # its parents are not for everybody
        os.setgid(1234)
        os.setuid(1234)
        os.close(os.open('h', os.O_WRONLY | os.O_CREAT))
    os.chmod(top, 0o777)
    pool.sync()
    pid = os.fork()
    if pid == 0:
        try:
            one_more()
        except OSError as e:
            os._exit(e.errno)
        os._exit(0)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), errno.EDQUOT, 'a fourth file')
    equal(zfs('set', 'userused@1234=1', name, check=False).status, 255)
    equal(zfs('set', 'userquota@nosuchuser=1G', name, check=False).status, 255)


@test
def projects(pool):
    """What is below a directory of a project counts for the project."""
    name, top = f'{pool.name}/p', f'{pool.mnt}/p'
    zfs('create', name)
    os.makedirs(f'{top}/d')
    subprocess.run(['chattr', '+P', '-p', '77', f'{top}/d'], check=True)
    zfs('set', 'projectquota@77=3M', name)
    done = fill(pool, f'{top}/d/f', 20 << 20)
    if not 2 << 20 <= done <= 5 << 20:
        raise Failure(f'{done} bytes could be written with a quota of 3M')
    equal(fill(pool, f'{top}/f', 5 << 20), 5 << 20, 'outside of the project')
    rows = zfs('projectspace', '-Hp', '-o', 'name,quota,objused', name).out.splitlines()
    equal(rows, ['0\t0\t2', '77\t3145728\t2'], 'projectspace')


@test
def kept_properties(pool):
    """What has no effect yet is kept and said so; the default is nothing to talk about."""
    name = f'{pool.name}/kept'
    zfs('create', '-o', 'logbias=throughput', name)
    for prop, value, default in (('sharenfs', 'on', 'off'), ('aclmode', 'passthrough', 'discard'),
                                 ('primarycache', 'metadata', 'all'), ('dedup', 'on', 'off'), ('sync', 'disabled', 'standard'),
                                 ('special_small_blocks', '8K', '0'), ('context', 'a:b:c:d', 'none')):
        said = zfs('set', f'{prop}={value}', name).err
        equal(said, f"property '{prop}' is kept, but has no effect in this version\n", prop)
        equal(zfs('get', '-H', '-o', 'value,source', prop, name).out, f'{value}\tlocal\n', prop)
        equal(zfs('set', f'{prop}={default}', name).err, '', prop)
    equal(zfs('get', '-H', '-o', 'value,source', 'logbias', name).out, 'throughput\tlocal\n', 'logbias')
    zfs('snapshot', f'{name}@s')
    r = zfs('clone', '-o', 'sharesmb=on', f'{name}@s', f'{name}2')
    equal(r.err, "property 'sharesmb' is kept, but has no effect in this version\n", 'clone')


def project(status, want, *argv, err=''):
    r = zfs('project', *argv, check=False)
    got = sorted(r.out.splitlines())
    if r.status != status or got != sorted(want) or err not in r.err:
        raise Failure(f'should be {want}, {status}:\n{r}')


@test
def project_command(pool):
    """Listing, setting, checking and clearing, as the reference answers."""
    name, top = f'{pool.name}/pc', f'{pool.mnt}/pc'
    zfs('create', name)
    d = f'{top}/d'
    os.makedirs(f'{d}/e/f')
    for f in ('1', 'e/2', 'e/f/3'):
        open(f'{d}/{f}', 'w', encoding='ascii').close()
    os.symlink('nowhere', f'{d}/link')
    os.mkfifo(f'{d}/fifo')
    project(0, [f'    0 - {d}', f'    0 - {d}/1', f'    0 - {d}/e'], d)
    project(0, [f'    0 - {d}'], '-d', d)
    project(0, [], '-p', '5', f'{d}/1')
    project(0, [], '-p', '7', '-s', d)
    project(0, [f'    7 P {d}', f'    5 - {d}/1', f'    0 - {d}/e'], d)
    flag, other = 'project inherit flag is not set', 'project ID is not set properly'
    project(0, [f'{d}/1 - {other} (5/7)', f'{d}/1 - {flag}', f'{d}/e - {other} (0/7)',
                f'{d}/e - {flag}'], '-c', d)
    project(0, [], '-c', '-d', d)
    project(0, [f'{d} - {other} (7/9)'], '-c', '-d', '-p', '9', d)
    project(0, [], '-r', '-s', d)
    project(0, [f'    7 P {p}' for p in (d, f'{d}/1', f'{d}/e', f'{d}/e/2', f'{d}/e/f',
                                          f'{d}/e/f/3')], '-r', d)
    project(0, [], '-c', '-r', d)
    project(0, [], '-C', '-k', f'{d}/1')
    project(0, [f'    7 - {d}/1'], f'{d}/1')
    project(0, [f'{d}/1\0'], '-c', '-0', '-r', d)
    project(0, [], '-C', '-r', d)
    project(0, [f'    0 - {d}', f'    0 - {d}/1', f'    0 - {d}/e'], d)
    os.mkdir(f'{top}/other')
    os.symlink(f'{top}/other', f'{d}/e/out')
    project(0, [], '-r', '-s', '-p', '8', d)
    project(0, [f'    0 - {top}/other'], '-d', f'{top}/other')
    project(0, [], '-C', '-r', d)
    project(255, [], f'{d}/none', err='failed to stat')
    project(255, [], f'{d}/fifo', err='only support project quota on regular file or directory')
    for argv, err in ((('-p', '-1', d), 'invalid project ID'), (('-p', '4294967295', d), 'invalid project ID'),
                      (('-C', '-c', d), "cannot specify '-C' '-c' '-s' together"),
                      (('-k', d), "'-k' is only valid together with '-C'"),
                      (('-0', d), "'-0' is only valid together with '-c'"),
                      (('-d', '-s', d), "'-d' is useless"), (('-p', '5'), 'missing file or directory')):
        project(2, [], *argv, err=err)
    zfs('set', 'projectquota@11=2M', name)
    project(0, [], '-r', '-s', '-p', '11', d)
    done = fill(pool, f'{d}/e/big', 20 << 20)
    if not 1 << 20 <= done <= 4 << 20:
        raise Failure(f'{done} bytes could be written with a quota of 2M')


def main():
    need_root()
    report = Report()
    with Lab('quotas') as lab:
        pool = None

        def made():
            nonlocal pool
            pool = lab.pool('quota', ['512M'], ['-o', 'ashift=12'])
        report.check('create', made)
        for function in TESTS:
            if pool and (not sys.argv[1:] or function.__name__ in sys.argv[1:]):
                report.check(function.__name__, function, pool)
        if pool:
            report.check('export', pool.export)
            report.check('judge', judge.verdict, pool)
    report.finish()


if __name__ == '__main__':
    main()
