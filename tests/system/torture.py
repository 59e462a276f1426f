#!/usr/bin/env python3
"""torture.py [MINUTES] [--judge]: pools on disks that lie, fail, vanish and are replaced, under processes that write
and are killed. Each round has a layout, and at any time at most as many bad disks in each vdev as it can do without;
no file may ever be wrong, nothing that was synced may be missing, and when the disks are good again a scrub has to
leave nothing behind. With --judge the reference's zdb looks at each pool in the end.

TARN_SEED repeats the choices, not the moments."""
import hashlib
import os
import random
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import judge
from lab import Failure, Lab, Report, need_program, need_root, run, seed, wait_until, zpool

LAYOUTS = [('mirror:2', 1), ('mirror:3', 2), ('raidz1:3', 1), ('raidz1:4', 1), ('raidz2:4', 2), ('raidz2:6', 2),
           ('raidz3:5', 3), ('mirror:2 mirror:2', 1), ('raidz1:3 raidz1:3', 1)]
FAULTS = ['read-error', 'write-error', 'flush-error', 'lost', 'torn', 'misdirected', 'flip-read', 'flip-write']
FILES = 60


class Files:
    """What files may hold: versions by name, the first one being what was synced last. None: no file."""

    def __init__(self, folder, rng):
        self.folder, self.rng, self.lock = folder, rng, threading.Lock()
        self.versions, self.stop, self.error, self.count = {}, threading.Event(), None, 0
        self.under_way = None  # whose newest version is being made

    def path(self, name):
        return os.path.join(self.folder, name)

    def step(self):
        name = f'f{self.rng.randrange(FILES)}'
        what = self.rng.random()
        if what < .15:
            return self.note(name, None, lambda: os.path.exists(self.path(name)) and os.unlink(self.path(name)))
        data = self.rng.randbytes(self.rng.choice([1, 511, 4096, 20000, 131072, 300000, 700001]))
        if what < .3:
            data = (data[:100] or b'x') * 3000
        return self.note(name, data, lambda: self.write(name, data))

    def write(self, name, data):
        with open(self.path('new'), 'wb') as f:
            f.write(data)
        os.rename(self.path('new'), self.path(name))

    def note(self, name, data, act):
        """A version counts from before it is made: a crash may come in between."""
        with self.lock:
            self.versions.setdefault(name, [None]).append(data and hashlib.sha256(data).digest())
            self.under_way = name
        act()
        with self.lock:
            self.under_way = None
        self.count += 1
        if self.rng.random() < .2:
            self.look(name, last=True)

    def read(self, name):
        try:
            with open(self.path(name), 'rb') as f:
                return hashlib.sha256(f.read()).digest()
        except FileNotFoundError:
            return None

    def look(self, name, last):
        """last: it must be the newest version, for nothing has crashed."""
        got = self.read(name)
        with self.lock:
            may = self.versions[name][-1:] if last else self.versions[name]
        if got not in may:
            raise Failure(f'{name} is {"missing" if got is None else "wrong"}; it has {len(self.versions[name])} '
                          f'versions since the sync, the last of which is {"none" if may[-1] is None else "a file"}')

    def look_at_all(self, last):
        """From the disks, not from the kernel's memory."""
        with open('/proc/sys/vm/drop_caches', 'w') as f:
            f.write('1')
        for name in list(self.versions):
            self.look(name, last)

    def settle(self):
        """What is there now is the only version: after a sync, or a crash."""
        for name in self.versions:
            self.versions[name] = [self.read(name)]

    def work(self):
        try:
            while not self.stop.is_set():
                self.step()
        except (OSError, Failure) as e:
            self.error = e

    def __enter__(self):
        self.stop.clear()
        self.error = self.under_way = None
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()


class Round:
    def __init__(self, lab, rng, text, layout, spares):
        self.lab, self.rng, self.text, self.spares = lab, rng, text, spares
        self.groups, self.said, self.history = [], {}, []
        n = [int(g.split(':')[1]) for g in layout.split()]
        self.say({})
        self.pool = lab.pool('torture', [f'{rng.randrange(96, 160)}M'] * sum(n), create=False)
        at = 0
        for size in n:
            self.groups.append(self.pool.vdevs[at:at + size])
            at += size
        self.pool.create(['-o', f'ashift={rng.choice([9, 12])}', '-O', f'recordsize={rng.choice(["4k", "128k"])}',
                          '-O', f'compression={rng.choice(["off", "on"])}'], layout)
        self.files = Files(self.pool.mnt, rng)
        self.bad, self.repaired, self.errors = [], [], 0
        self.images = len(self.pool.vdevs)

    def say(self, lines):
        """What each disk of the trial is from now on."""
        self.said = lines
        with open(self.text + '.new', 'w') as f:
            f.writelines(f'{path} {words}\n' for path, words in lines.items())
        os.rename(self.text + '.new', self.text)

    def log(self, what):
        self.history.append(what)

    def choose_bad(self):
        self.bad = [d for g in self.groups for d in self.rng.sample(g, self.rng.randint(0, self.spares))]

    def faults(self):
        lines = {}
        for disk in self.bad:
            if self.rng.random() < .15:
                lines[disk] = 'gone'
                continue
            chosen = self.rng.sample(FAULTS, self.rng.randint(1, 3))
            lines[disk] = ' '.join(f'{f}={self.rng.choice([.3, .05, .01])}' for f in chosen) + \
                f' seed={self.rng.randrange(1000)}'
        self.log(f'faults {lines}')
        self.say(lines)

    def offline(self):
        for disk in self.bad:
            zpool('offline', *self.rng.choice([[], ['-t']]), self.pool.name, disk, check=False)
            self.log(f'offline {disk}')

    def online(self):
        for disk in self.bad:
            zpool('online', self.pool.name, disk, check=False)
            self.log(f'online {disk}')

    def scrub(self):
        zpool('scrub', self.pool.name, check=False)
        self.log('scrub')

    def clear(self):
        zpool('clear', self.pool.name, check=False)
        self.log('clear')

    def replace(self):
        if not self.bad:
            return
        old = self.rng.choice(self.bad)
        self.images += 1
        new = self.lab.image(f'disk{self.images}.img', '170M', self.pool.home)
        r = zpool('replace', self.pool.name, old, new, check=False)
        self.log(f'replace {old} {new}: {r.err.strip()}')
        if r.status != 0:
            os.unlink(new)
            return
        for group in self.groups:  # the new one may be as bad as the old one was
            if old in group:
                group[group.index(old)] = new
        self.bad[self.bad.index(old)] = new
        self.replaced.append(old)

    def sync(self):
        """What was written before is safe from now on."""
        with self.files.lock:
            before = {name: len(v) - (name == self.files.under_way) for name, v in self.files.versions.items()}
        self.pool.sync()
        with self.files.lock:
            for name, n in before.items():
                self.files.versions[name] = self.files.versions[name][n - 1:]
        self.log('sync')

    def period(self):
        """A while with the same bad disks."""
        self.replaced = []
        self.choose_bad()
        actions = [self.faults, self.faults, self.offline, self.online, self.scrub, self.clear, self.replace,
                   self.sync, self.sync]
        with self.files:
            for _ in range(self.rng.randint(3, 9)):
                self.rng.choice(actions)()
                count = self.files.count
                wait_until(lambda: self.files.count > count + self.rng.randrange(30) or self.files.error,
                           'files to be written', 60)
                if self.files.error:
                    raise self.files.error
            if self.rng.random() < .5:
                self.pool.kill()
                self.log('kill')
                crashed = True
            else:
                crashed = False
        if self.files.error and not crashed:
            raise self.files.error
        if crashed:
            self.pool.import_()
        self.files.look_at_all(last=not crashed)
        if crashed:
            self.files.settle()

    def heal(self):
        """The disks are good again; what they have of the time before is repaired."""
        self.say({})
        self.log('good')
        time.sleep(.06)  # the text is looked at every 50 ms
        self.online()
        for disk in self.bad:  # unless it left with a replacement
            zpool('online', self.pool.name, disk, check=False)
        zpool('wait', '-t', 'resilver', self.pool.name, timeout=300)
        self.errors += sum(int(n) for line in zpool('status', '-p', self.pool.name).out.splitlines()
                           if '.img' in line for n in line.split()[2:5])
        self.clear()
        for turn in range(4):
            zpool('scrub', '-w', self.pool.name, timeout=300, check=False)
            zpool('wait', '-t', 'resilver,scrub', self.pool.name, timeout=300)
            text = zpool('status', self.pool.name).out
            self.repaired += re.findall(r'repaired (\S+)', text)
            if re.search(r'scrub repaired 0B .* with 0 errors', text) and 'replacing' not in text and \
                    self.pool.get('health') == 'ONLINE':
                break
            zpool('clear', self.pool.name)
        else:
            raise Failure(f'it does not heal:\n{text}')
        self.files.look_at_all(last=True)
        self.pool.sync()
        self.files.settle()

    def run(self, with_judge):
        for _ in range(self.rng.randint(2, 4)):
            self.period()
            self.heal()
        self.pool.export()
        if with_judge:
            judge.zdb(self.pool.home, self.pool.name)
        return f'{self.files.count} writes, {self.errors} errors counted, repaired {" ".join(self.repaired)}'


def one_round(lab, rng, text, layout, spares, with_judge):
    r = Round(lab, rng, text, layout, spares)
    try:
        return r.run(with_judge)
    except (Failure, OSError) as e:
        last = '\n'.join(r.history[-40:])
        status = zpool('status', '-v', r.pool.name, check=False)
        raise Failure(f'{e}\nwhat was done:\n{last}\n{status}') from e


def main():
    need_root()
    need_program()
    args = [a for a in sys.argv[1:] if a[0] != '-']
    end = time.monotonic() + 60 * float(args[0] if args else 30)
    with_judge = '--judge' in sys.argv and judge.ready()
    rng, report, number = random.Random(seed()), Report(), 0
    while time.monotonic() < end and report.failed == 0:
        number += 1
        layout, spares = LAYOUTS[(number - 1) % len(LAYOUTS)] if number <= len(LAYOUTS) else rng.choice(LAYOUTS)
        with Lab('torture') as lab:
            text = os.environ['TARN_TRIAL'] = lab.path('trial')
            os.environ['TARN_CACHE_LIMIT'] = '16M'
            report.check(f'{number}: {layout}', one_round, lab, random.Random(rng.random()), text, layout, spares,
                         with_judge)
            del os.environ['TARN_TRIAL']
    report.finish()


if __name__ == '__main__':
    main()
