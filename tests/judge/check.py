#!/usr/bin/env python3
"""check.py IMAGE...: recomputes what the reference's zdb does not verify in an exported pool:
counters of datasets and directories, deadlists, the pool's own usage, accounting by owner,
reference counts; and once more, independently, that allocated space is exactly the reachable
blocks. Prints each mismatch and a summary; exit status 1 when there was one."""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from poolread import (BlockPointer, ObjectSet, Pool, TYPE_DSL_DATASET, TYPE_DSL_DIR, TYPE_SA,
                      TYPE_SPACE_MAP, TYPE_ZNODE, u64, zap_entries)

EVER = 1 << 62
# dsl_dir bonus: used by head, snapshots, children, children's reservations, own reservation.
HEAD, SNAP, CHILD, CHILD_RSRV, REFRSRV = range(5)


class Checker:
    def __init__(self, paths):
        self.pool = Pool(paths)
        self.mos = self.pool.mos
        self.bad = 0
        self.reached = set()
        self.has_log = False

    def same(self, what, got, want):
        if got != want:
            self.bad += 1
            print(f'MISMATCH {what}: the pool says {got}, recomputed {want}')

    def reach(self, bp):
        self.reached.update(self.pool.segments(bp))

    # -- the MOS itself

    def check_mos(self):
        """Usage of the MOS: its sum must stand in the $MOS directory, to the byte."""
        total = [0, 0]
        self.objects = list(self.mos.numbers())

        def add(bp):
            total[0] += bp.allocated()
            total[1] += bp.physical()
            self.reach(bp)

        add(self.mos.bp)
        for bp in self.mos.meta.walk():
            add(bp)
        for number in self.objects:
            dnode, used = self.mos.dnode(number), 0
            for bp in dnode.walk():
                add(bp)
                used += bp.allocated()
            self.same(f'MOS object {number} used', dnode.used if dnode.used_is_bytes else 0, used)
        self.same('MOS fill count', self.mos.bp.fill, len(self.objects))
        root = self.pool.directory['root_dataset']
        special = self.mos.dnode(self.child(root, '$MOS'))
        self.same('$MOS used', [special.bonus_u64(o) for o in (0x28, 0x30, 0x38)],
                  [total[0], total[1], total[1]])

    def check_free(self):
        directory = self.pool.directory
        free = self.mos.dnode(self.child(directory['root_dataset'], '$FREE'))
        waiting = self.mos.dnode(directory['free_bpobj'])
        tree = self.mos.dnode(directory['bptree_obj']) if 'bptree_obj' in directory else None
        self.same('$FREE used', [free.bonus_u64(0x28 + 8 * i) for i in range(3)],
                  [waiting.bonus_u64(8 + 8 * i) + (tree.bonus_u64(16 + 8 * i) if tree else 0)
                   for i in range(3)])
        for name in ('free_bpobj', 'sync_bplist'):
            for bp in self.bpobj(directory[name]):
                self.reach(bp)

    def bpobj(self, number):
        """Pointers of a list, those of the lists it refers to included."""
        dnode = self.mos.dnode(number)
        count = dnode.bonus_u64(0)
        raw = dnode.data(128 * count)
        for i in range(count):
            yield BlockPointer(raw[128 * i:128 * i + 128])
        if dnode.bonus_length >= 48 and dnode.bonus_u64(0x28):
            subs = self.mos.dnode(dnode.bonus_u64(0x20)).data(8 * dnode.bonus_u64(0x28))
            for sub in struct.unpack(f'<{len(subs) // 8}Q', subs):
                yield from self.bpobj(sub)

    # -- directories and datasets

    def child(self, directory, name):
        for key, _, value in self.mos.zap(self.mos.dnode(directory).bonus_u64(0x20)):
            if key.decode() == name:
                return value[0]
        raise KeyError(name)

    def deadlist(self, number):
        """{birth key: (allocated, physical, uncompressed, list object)}"""
        dnode, rows = self.mos.dnode(number), {}
        for key, _, value in zap_entries(dnode):
            entry = self.mos.dnode(value[0])
            rows[int(key, 16)] = tuple(entry.bonus_u64(o) for o in (8, 16, 24)) + (value[0],)
        self.same(f'deadlist {number} sums', [dnode.bonus_u64(o) for o in (0, 8, 16)],
                  [sum(r[i] for r in rows.values()) for i in range(3)])
        return rows

    def deadlist_space(self, dataset, low, high=EVER):
        rows = self.deadlist(self.mos.dnode(dataset).bonus_u64(0x40))
        return sum(r[0] for key, r in rows.items() if low <= key < high)

    def objset_sizes(self, dataset):
        """Sizes of all that one dataset or snapshot refers to; checks its objects on the way."""
        dnode = self.mos.dnode(dataset)
        raw = dnode.raw[dnode.bonus_offset + 0x80:dnode.bonus_offset + 0x100]
        bp = BlockPointer(raw)
        if bp.hole:
            return (0, 0, 0)
        objset = ObjectSet(self.pool, bp)
        total = list(bp.sizes())
        self.reach(bp)
        if not BlockPointer(objset.phys[528:656]).hole:
            self.has_log = True          # the chain of an intent log is not followed
        dnodes = [objset.meta] + [d for d in map(objset.special, (1, 2, 3)) if d]
        dnodes += [objset.dnode(n) for n in objset.numbers()]
        owners = {}
        for d in dnodes:
            used = 0
            for pointer in d.walk():
                for i, size in enumerate(pointer.sizes()):
                    total[i] += size
                used += pointer.allocated()
                self.reach(pointer)
            self.same(f'dataset {dataset} object {d.number} used',
                      d.used if d.used_is_bytes else 0, used)
            if d.bonus_type == TYPE_SA and objset.flags & 1:
                self.account(owners, d, objset.flags)
        old_style = any(d.bonus_type == TYPE_ZNODE for d in dnodes)
        if objset.flags & 1 and not old_style:
            got = {}
            for i in range(3):
                accounts = objset.special(i + 1)
                for key, _, value in zap_entries(accounts) if accounts else []:
                    got[i, key.decode()] = value[0]
            if not objset.flags & 4:
                owners = {k: v for k, v in owners.items() if k[0] != 2}
            self.same(f'dataset {dataset} accounting by owner', got, owners)
        return tuple(total)

    @staticmethod
    def account(owners, dnode, flags):
        """Adds one file's usage to its owner's, its group's and its project's."""
        base = dnode.bonus_offset
        raw = dnode.raw
        if u64(raw, base) & 0xFFFFFFFF == 0:
            ids = (0, 0, 0)
        else:
            header = (struct.unpack_from('<H', raw, base + 4)[0] >> 10) * 8 + base
            project = u64(raw, header + 128) if u64(raw, header + 48) & 0x800000000000 else 0
            ids = (u64(raw, header + 24), u64(raw, header + 32), project)
        used = dnode.used if dnode.used_is_bytes else dnode.used * 512
        for i, owner in enumerate(ids):
            key = f'{owner:x}'
            owners[i, key] = owners.get((i, key), 0) + 512 + used
            if flags & 2:
                owners[i, 'obj-' + key] = owners.get((i, 'obj-' + key), 0) + 1

    def check_directory(self, number, path):
        d = self.mos.dnode(number)
        children = [(name.decode(), value[0])
                    for name, _, value in self.mos.zap(d.bonus_u64(0x20))]
        for name, child in children:
            self.check_directory(child, f'{path}/{name}')
        parts = [d.bonus_u64(0x68 + 8 * i) for i in range(5)]
        self.same(f'{path} used', d.bonus_u64(0x28), sum(parts))
        sizes = [(self.mos.dnode(c).bonus_u64(0x28), self.mos.dnode(c).bonus_u64(0x48))
                 for _, c in children]
        self.same(f'{path} used by children', parts[CHILD], sum(used for used, _ in sizes))
        self.same(f'{path} reserved for children', parts[CHILD_RSRV],
                  sum(max(0, reserved - used) for used, reserved in sizes))
        if d.bonus_u64(8):
            self.check_head(number, d, path, parts)

    def check_head(self, number, d, path, parts):
        dnode = self.mos.dnode
        head = dnode(d.bonus_u64(8))
        origin = d.bonus_u64(0x18)
        is_clone = origin and origin != self.origin
        origin_txg = dnode(origin).bonus_u64(0x38) if is_clone else 0
        chain, at = [head.number], head.bonus_u64(8)
        while at and dnode(at).bonus_u64(0) == number:
            chain.append(at)
            at = dnode(at).bonus_u64(8)

        def referenced(n):
            return dnode(n).bonus_u64(0x48)

        for n in chain:
            self.same(f'{path} dataset {n} referenced, compressed, uncompressed',
                      tuple(dnode(n).bonus_u64(o) for o in (0x48, 0x50, 0x58)),
                      self.objset_sizes(n))
        self.same(f'{path} used by snapshots', parts[SNAP],
                  sum(self.deadlist_space(n, origin_txg) for n in chain))
        want = referenced(head.number)
        if is_clone:
            want += sum(self.deadlist_space(n, 0, origin_txg) for n in chain) - referenced(origin)
        self.same(f'{path} used by head', parts[HEAD], want)
        previous = head.bonus_u64(8)
        dead = dnode(head.bonus_u64(0x40)).bonus_u64(0)
        self.same(f'{path} unique', head.bonus_u64(0x60),
                  referenced(head.number) - (referenced(previous) - dead if previous else 0))
        properties = {k.decode(): v for k, _, v in self.mos.zap(d.bonus_u64(0x50))}
        reservation = properties.get('refreservation', [0])[0]
        self.same(f'{path} used by reservation', parts[REFRSRV],
                  max(0, reservation - head.bonus_u64(0x60)))
        for n in chain[1:]:
            self.check_snapshot(path, n)
        for n in chain:
            self.check_deadlist_births(path, n)

    def check_snapshot(self, path, n):
        snap = self.mos.dnode(n)
        self.same(f'{path} snapshot {n} unique', snap.bonus_u64(0x60),
                  self.deadlist_space(snap.bonus_u64(0x18), snap.bonus_u64(0x10)))
        clones = self.mos.zap(snap.bonus_u64(0x100)) if snap.bonus_u64(0x100) else []
        self.same(f'{path} snapshot {n} children', snap.bonus_u64(0x28), 1 + len(clones))

    def check_deadlist_births(self, path, n):
        """Each entry must lie under the key whose range its birth is in."""
        previous_txg = self.mos.dnode(n).bonus_u64(0x10)
        rows = sorted(self.deadlist(self.mos.dnode(n).bonus_u64(0x40)).items())
        for i, (key, row) in enumerate(rows):
            limit = rows[i + 1][0] if i + 1 < len(rows) else EVER
            for bp in self.bpobj(row[3]):
                if not (key < bp.birth <= limit and bp.birth <= previous_txg):
                    self.same(f'{path} deadlist of {n} key {key}', f'birth {bp.birth}', 'in range')

    # -- features and space

    def check_counts(self):
        zapified = spacemaps = 0
        for number in self.objects:
            d = self.mos.dnode(number)
            zapified += d.type == 0xC4 and d.bonus_type in (TYPE_DSL_DIR, TYPE_DSL_DATASET)
            spacemaps += d.type == TYPE_SPACE_MAP and d.bonus_length == 320
        for feature, count in (('extensible_dataset', zapified),
                               ('spacemap_histogram', spacemaps)):
            got = self.pool.feature(f'com.delphix:{feature}')
            if got is not None:
                self.same(f'feature {feature}', got, count)

    def check_space(self):
        maps, logged = self.pool.load_space()
        for (vdev, i), obj in maps.items():
            top = self.pool.tops[vdev]
            per = 1 << top.ms_shift - top.ashift
            d = self.mos.dnode(obj)
            part = top.map[i * per:(i + 1) * per]
            if not logged:
                self.same(f'vdev {vdev} metaslab {i} allocated', d.bonus_u64(16),
                          part.count(1) << top.ashift)
                if d.bonus_length >= 320:
                    self.check_histogram(vdev, i, d, part)
        if 'com.delphix:zpool_checkpoint' in self.pool.directory or self.has_log:
            print('note: leak check left out (checkpoint or intent log)')
            return
        for vdev, top in self.pool.tops.items():
            free = bytearray(b ^ 1 for b in top.map) if len(top.map) < 1 << 22 else None
            lost = twice = 0
            for _, off, size in (s for s in self.reached if s[0] == vdev):
                first, count = off // top.unit, size // top.unit
                lost += top.map.count(0, first, first + count)
                top.map[first:first + count] = bytes(b'\2' * count)
                if free is not None:
                    twice += sum(b == 2 for b in free[first:first + count])
                    free[first:first + count] = b'\2' * count
            leaked = top.map.count(1)
            self.same(f'vdev {vdev}: units reachable but free', lost, 0)
            self.same(f'vdev {vdev}: units of two blocks', twice, 0)
            self.same(f'vdev {vdev}: units allocated but unreachable', leaked, 0)

    def check_histogram(self, vdev, i, d, part):
        """Neighbouring free segments may be counted apart, so only this is certain: the buckets
        describe some division of the free space."""
        counts = [d.bonus_u64(64 + 8 * k) for k in range(32)]
        free = part.count(0)
        least = sum(n << k for k, n in enumerate(counts))
        most = sum(n * ((2 << k) - 1) for k, n in enumerate(counts))
        if not least <= free <= most:
            self.same(f'vdev {vdev} metaslab {i} histogram {counts}', f'{least} to {most} units free',
                      f'{free} units')

    def run(self):
        root = self.pool.directory['root_dataset']
        self.check_mos()
        self.check_free()
        ds = self.mos.dnode(self.child(root, '$ORIGIN')).bonus_u64(8)
        self.origin = self.mos.dnode(ds).bonus_u64(8)
        self.check_directory(root, 'pool')
        self.check_counts()
        self.check_space()
        print(f'txg {self.pool.txg}, {len(self.objects)} MOS objects, {self.bad} mismatches')
        return self.bad


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if Checker(sys.argv[1:]).run() else 0)
