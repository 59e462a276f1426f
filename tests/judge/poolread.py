"""A small, slow, independent reader of pools on image files: the second opinion beside the
reference. Reads top-level vdevs that are a file, a disk, a mirror or a RAID-Z; every object, ZAP, space map.

Nothing here is shared with Tarn's own code, on purpose."""
import hashlib
import os
import struct
import zlib
from itertools import accumulate

M64 = (1 << 64) - 1
LABEL = 0x40000
DATA_START = 0x400000
EMBEDDED_CHECKSUM_MAGIC = 0x0210DA7AB10C7A11
UBERBLOCK_MAGIC = 0x00BAB10C
# Object types whose blocks are not metadata (old-style types; new-style ones carry a bit for it).
NOT_METADATA = {19, 23, 25, 26, 49}
TYPE_OBJSET, TYPE_SPACE_MAP, TYPE_DSL_DIR, TYPE_DSL_DATASET = 11, 8, 12, 16
TYPE_ZNODE, TYPE_SA = 17, 44
NO_BLOCK = bytes(128)


def u64(buf, off):
    return struct.unpack_from('<Q', buf, off)[0]


def round_up(x, to):
    return (x + to - 1) // to * to


def is_metadata(kind):
    return bool(kind & 0x40) if kind & 0x80 else kind not in NOT_METADATA


# ---- checksums and compression

def fletcher4(buf):
    words = struct.unpack(f'<{len(buf) // 4}I', buf)
    sums = []
    for _ in range(4):
        words = list(accumulate(words))
        sums.append(words[-1] & M64)
    return sums


def sha256_words(buf):
    return list(struct.unpack('>4Q', hashlib.sha256(buf).digest()))


CHECKSUMS = {7: fletcher4, 8: sha256_words}


def lz4_decompress(src, size):
    end = 4 + struct.unpack_from('>I', src)[0]
    pos, out = 4, bytearray()

    def more(length):
        nonlocal pos
        if length == 15:
            while True:
                byte = src[pos]
                pos += 1
                length += byte
                if byte != 255:
                    break
        return length

    while pos < end:
        token = src[pos]
        pos += 1
        literals = more(token >> 4)
        out += src[pos:pos + literals]
        pos += literals
        if pos >= end:
            break
        distance = src[pos] | src[pos + 1] << 8
        pos += 2
        length = more(token & 15) + 4
        start = len(out) - distance
        pattern = bytes(out[start:start + length])
        out += (pattern * (length // len(pattern) + 1))[:length]
    if len(out) != size:
        raise ValueError(f'lz4: {len(out)} bytes for {size}')
    return bytes(out)


def lzjb_decompress(src, size):
    out, pos, mask, copymap = bytearray(), 0, 128, 0
    while len(out) < size:
        mask <<= 1
        if mask == 256:
            mask, copymap = 1, src[pos]
            pos += 1
        if copymap & mask:
            length = (src[pos] >> 2) + 3
            distance = (src[pos] << 8 | src[pos + 1]) & 0x3FF
            pos += 2
            for _ in range(min(length, size - len(out))):
                out.append(out[-distance])
        else:
            out.append(src[pos])
            pos += 1
    return bytes(out)


def zle_decompress(src, size):
    out, pos = bytearray(), 0
    while len(out) < size:
        n = src[pos] + 1
        pos += 1
        if n <= 64:
            out += src[pos:pos + n]
            pos += n
        else:
            out += bytes(n - 64)
    return bytes(out[:size])


def decompress(kind, raw, size):
    if kind == 2:
        return raw.ljust(size, b'\0')
    if kind == 3:
        return lzjb_decompress(raw, size)
    if 5 <= kind <= 13:
        return zlib.decompressobj().decompress(raw)
    if kind == 14:
        return zle_decompress(raw, size)
    if kind == 15:
        return lz4_decompress(raw, size)
    raise NotImplementedError(f'compression {kind}')


# ---- block pointers

# Of the top-level vdevs of the pool that is being read: how many bytes 512 allocated ones count.
RATIOS = {}


class BlockPointer:
    __slots__ = ('raw', 'w')

    def __init__(self, raw):
        self.raw = bytes(raw)
        self.w = struct.unpack('<16Q', self.raw)

    embedded = property(lambda s: s.w[6] >> 39 & 1)
    hole = property(lambda s: not s.embedded and s.w[0] == 0 and s.w[1] == 0)
    compression = property(lambda s: s.w[6] >> 32 & 127)
    checksum = property(lambda s: s.w[6] >> 40 & 255)
    type = property(lambda s: s.w[6] >> 48 & 255)
    level = property(lambda s: s.w[6] >> 56 & 31)
    logical_birth = property(lambda s: s.w[10])
    birth = property(lambda s: s.w[9] if s.w[7] >> 63 and s.w[9] else s.w[10])
    fill = property(lambda s: 0 if s.hole else 1 if s.embedded else s.w[11])

    @property
    def lsize(self):
        if self.embedded:
            return (self.w[6] & 0x1FFFFFF) + 1
        return ((self.w[6] & 0xFFFF) + 1) * 512

    @property
    def psize(self):
        if self.embedded:
            return (self.w[6] >> 25 & 127) + 1
        return ((self.w[6] >> 16 & 0xFFFF) + 1) * 512

    def dvas(self):
        """[(vdev, byte offset, allocated bytes, gang)]"""
        if self.embedded or self.hole:
            return []
        found = []
        for i in range(3):
            low, high = self.w[2 * i], self.w[2 * i + 1]
            if low & 0xFFFFFF:
                found.append((low >> 32 & 0xFFFFFF, (high & M64 >> 1) << 9, (low & 0xFFFFFF) << 9,
                              high >> 63))
        return found

    def allocated(self):
        """Charged bytes: what is allocated, on a RAID-Z without the share of parity."""
        return sum((size >> 9) * RATIOS.get(vdev, 512) for vdev, _, size, _ in self.dvas())

    def physical(self):
        return 0 if self.embedded or self.hole else self.psize

    def uncompressed(self):
        if self.hole:
            return 0
        meta = self.level > 0 or is_metadata(self.type)
        if self.embedded:
            return 0 if meta else self.lsize
        return self.psize if meta else self.lsize

    def sizes(self):
        return self.allocated(), self.physical(), self.uncompressed()


# ---- nvlists (the XDR form)

def nvlist(buf, top=True):
    """A dict; nested lists are dicts, arrays are lists."""

    def read(pos):
        pos += 8
        pairs = {}
        while True:
            size, decoded = struct.unpack_from('>II', buf, pos)
            if size == 0 and decoded == 0:
                return pairs, pos + 8
            at = pos + 8
            length = struct.unpack_from('>I', buf, at)[0]
            name = buf[at + 4:at + 4 + length].decode()
            at += 4 + round_up(length, 4)
            kind, count = struct.unpack_from('>II', buf, at)
            at += 8
            if kind == 1:
                value = True
            elif kind in (7, 8):
                value = struct.unpack_from('>q' if kind == 7 else '>Q', buf, at)[0]
            elif kind == 9:
                n = struct.unpack_from('>I', buf, at)[0]
                value = buf[at + 4:at + 4 + n].decode()
            elif kind == 10:
                value = bytes(buf[at:at + count])
            elif kind == 16:
                value = list(struct.unpack_from(f'>{count}Q', buf, at + 4))
            elif kind == 19:
                value, _ = read(at)
            elif kind == 20:
                value = []
                for _ in range(count):
                    item, at = read(at)
                    value.append(item)
            elif kind == 21:
                value = struct.unpack_from('>I', buf, at)[0]
            else:
                raise NotImplementedError(f'nvlist type {kind}')
            pairs[name] = value
            pos += size

    return read(4 if top else 0)[0]


# ---- devices and labels

class Device:
    """One image with its labels."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, 'rb')
        size = os.fstat(self.file.fileno()).st_size & ~(LABEL - 1)
        self.label_offsets = [0, LABEL, size - 2 * LABEL, size - LABEL]
        self.labels = []
        for off in self.label_offsets:
            raw = self.read(off + 0x4000, 0x1C000)
            self.labels.append(nvlist(raw) if self_checksummed(raw, off + 0x4000) else None)
        good = [label for label in self.labels if label and 'pool_guid' in label]
        self.config = max(good, key=lambda c: c['txg']) if good else None

    def read(self, off, size):
        return os.pread(self.file.fileno(), size, off)

    def best_uberblock(self, ashift):
        shift = min(max(ashift, 10), 13)
        best = None
        for off in self.label_offsets:
            for i in range(0x20000 >> shift):
                at = off + 0x20000 + (i << shift)
                raw = self.read(at, 1 << shift)
                if u64(raw, 0) == UBERBLOCK_MAGIC and self_checksummed(raw, at):
                    key = (u64(raw, 16), u64(raw, 32))
                    if best is None or key > best[0]:
                        best = (key, raw)
        return best


def self_checksummed(raw, off):
    """Does the block end in a checksum of itself, seeded with its offset?"""
    n = len(raw)
    if n < 40 or u64(raw, n - 40) != EMBEDDED_CHECKSUM_MAGIC:
        return False
    blank = bytearray(raw)
    struct.pack_into('<5Q', blank, n - 40, EMBEDDED_CHECKSUM_MAGIC, off, 0, 0, 0)
    return list(struct.unpack_from('<4Q', raw, n - 32)) == sha256_words(blank)


class TopVdev:
    """A top-level vdev: its leaves hold the same bytes each, or it is a RAID-Z."""

    def __init__(self, tree):
        self.id, self.ashift, self.ms_shift = tree['id'], tree['ashift'], tree['metaslab_shift']
        self.asize, self.ms_array = tree['asize'], tree['metaslab_array']
        self.type = tree['type']
        self.parity = tree.get('nparity', 0)
        self.order = [c['guid'] for c in tree['children']] if 'children' in tree else [tree['guid']]
        self.leaves = {}
        self.count = self.asize >> self.ms_shift
        self.unit = 1 << self.ashift
        # One byte per allocation unit: 1 is allocated.
        self.map = bytearray(self.count << self.ms_shift - self.ashift)
        RATIOS[self.id] = 131072 // (self.allocation(131072) >> 9)

    def allocation(self, size):
        """What a block of this size takes."""
        sectors = round_up(size, self.unit) // self.unit
        if self.parity:
            sectors += self.parity * -(-sectors // (len(self.order) - self.parity))
            sectors = round_up(sectors, self.parity + 1)
        return sectors * self.unit

    def copies(self, off, size):
        """The bytes at off as each leaf has them; of a RAID-Z just once, without using parity."""
        if not self.parity:
            return [leaf.read(off + DATA_START, size) for leaf in self.leaves.values()]
        n, first = len(self.order), off // self.unit
        sectors = round_up(size, self.unit) // self.unit
        rows, rest = divmod(sectors, n - self.parity)
        places = [((first + c) % n, (first + c) // n * self.unit,
                   (rows + (rest > 0 and c < rest + self.parity)) * self.unit) for c in range(n)]
        if self.parity == 1 and off & 0x100000:
            a, b = places[:2]
            places[:2] = (b[0], b[1], a[2]), (a[0], a[1], b[2])
        return [b''.join(self.leaves[self.order[child]].read(at + DATA_START, length)
                         for child, at, length in places[self.parity:])[:size]]


class Pool:
    def __init__(self, paths):
        self.cache = {}
        devices = [d for d in map(Device, paths) if d.config]
        if not devices:
            raise ValueError('no label in any of the images')
        self.devices = devices
        self.tops = {}
        for d in devices:
            tree = d.config['vdev_tree']
            if tree['type'] not in ('file', 'disk', 'mirror', 'raidz'):
                raise NotImplementedError(f"vdev type {tree['type']}")
            top = self.tops.setdefault(tree['id'], TopVdev(tree))
            top.leaves[d.config['guid']] = d
        (self.txg, _), self.uberblock = max(
            (d.best_uberblock(self.tops[d.config['vdev_tree']['id']].ashift) for d in devices),
            key=lambda best: best[0])
        self.mos = ObjectSet(self, BlockPointer(self.uberblock[40:168]))
        self.directory = {name.decode(): v[0] if len(v) == 1 else v
                          for name, _, v in self.mos.zap(1)}

    def raw_at(self, vdev, off, size):
        if vdev not in self.tops:
            raise NotImplementedError(f'top-level vdev {vdev} has no image (removed, or missing)')
        return self.tops[vdev].copies(off, size)

    def gang_members(self, vdev, off, bp):
        """The pointers in a gang header, from the first good copy."""
        for raw in self.raw_at(vdev, off, 512):
            if u64(raw, 512 - 40) == EMBEDDED_CHECKSUM_MAGIC:
                members = [BlockPointer(raw[i:i + 128]) for i in range(0, 384, 128)]
                return [m for m in members if not m.hole]
        raise ValueError('gang header: no good copy')

    def read_raw(self, bp):
        for vdev, off, _, gang in bp.dvas():
            if gang:
                copies = [b''.join(self.read_raw(m) for m in self.gang_members(vdev, off, bp))]
            else:
                copies = self.raw_at(vdev, off, bp.psize)
            for raw in copies:
                check = CHECKSUMS.get(bp.checksum)
                if check is None or check(raw) == list(bp.w[12:16]):
                    return raw
        raise ValueError(f'no good copy of a block, DVAs {bp.dvas()}')

    def read(self, bp):
        if bp.embedded:
            raw = (bp.raw[0:48] + bp.raw[56:80] + bp.raw[88:128])[:bp.psize]
            return decompress(bp.compression, raw, bp.lsize)
        got = self.cache.get(bp.raw)
        if got is None:
            got = decompress(bp.compression, self.read_raw(bp), bp.lsize)
            if len(self.cache) > 4000:
                self.cache.clear()
            self.cache[bp.raw] = got
        return got

    def segments(self, bp):
        """Everything the pointer holds on disk, gang members included: (vdev, offset, bytes)."""
        for vdev, off, asize, gang in bp.dvas():
            if gang:
                yield vdev, off, self.tops[vdev].allocation(512)
                for member in self.gang_members(vdev, off, bp):
                    yield from self.segments(member)
            else:
                yield vdev, off, asize

    def feature(self, guid):
        """The reference count of a feature, None when it is not enabled."""
        for name in ('features_for_read', 'features_for_write'):
            for key, _, value in self.mos.zap(self.directory[name]) \
                    if name in self.directory else []:
                if key.decode() == guid:
                    return value[0]
        return None

    # -- space maps

    def space_map(self, obj):
        dnode = self.mos.dnode(obj)
        length = dnode.bonus_u64(8)
        return struct.unpack(f'<{length // 8}Q', dnode.data(length))

    def replay(self, words, base_top, base, log_txg, unflushed):
        """Applies space map words: of one metaslab at base in base_top, or of the log of log_txg
        (then the entries name the vdev and count 512-byte sectors)."""
        i = 0
        while i < len(words):
            w = words[i]
            i += 1
            if w >> 62 == 2:
                continue
            vdev = base_top
            if w >> 62 == 3:
                run = (w >> 24 & (1 << 36) - 1) + 1
                vdev = w & 0xFFFFFF if log_txg is not None else base_top
                free, off = words[i] >> 63, words[i] & (1 << 63) - 1
                i += 1
            else:
                off, free, run = w >> 16 & (1 << 47) - 1, w >> 15 & 1, (w & 0x7FFF) + 1
            top = self.tops[vdev]
            shift = 9 if log_txg is not None else top.ashift
            at, size = base + (off << shift), run << shift
            if log_txg is not None and log_txg < unflushed[vdev][at >> top.ms_shift]:
                continue
            first, count = at // top.unit, size // top.unit
            if top.map.count(free ^ 1, first, first + count):
                raise ValueError(f'space map: vdev {vdev} {at:#x}+{size:#x} '
                                 f'{"freed" if free else "allocated"} twice')
            top.map[first:first + count] = bytes([free ^ 1]) * count

    def load_space(self):
        """Fills the maps of all top-level vdevs; returns {(vdev, metaslab): space map object} and
        whether logs were in play."""
        objects, unflushed = {}, {}
        config = self.mos.dnode(self.directory['config'])
        config = nvlist(config.data(config.bonus_u64(0)))
        zaps = {child['id']: child.get('com.delphix:vdev_zap_top')
                for child in config['vdev_tree']['children']}
        logs = self.directory.get('com.delphix:log_spacemap_zap')
        logged = False
        for vdev, top in self.tops.items():
            raw = self.mos.dnode(top.ms_array).data(8 * top.count)
            for i, obj in enumerate(struct.unpack(f'<{top.count}Q', raw)):
                if obj:
                    objects[vdev, i] = obj
                    self.replay(self.space_map(obj), vdev, i << top.ms_shift, None, None)
            unflushed[vdev] = [0] * top.count
            if logs and zaps.get(vdev):
                found = dict((k, v) for k, _, v in self.mos.zap(zaps[vdev]))
                table = found.get(b'com.delphix:ms_unflushed_phys_txgs')
                if table:
                    raw = self.mos.dnode(table[0]).data(8 * top.count)
                    unflushed[vdev] = struct.unpack(f'<{top.count}Q', raw)
                    logged = True
        if logs:
            for txg, obj in sorted((int(k, 16), v[0]) for k, _, v in self.mos.zap(logs)):
                self.replay(self.space_map(obj), None, 0, txg, unflushed)
        return objects, logged


# ---- objects

class Dnode:
    def __init__(self, objset, number, raw):
        self.objset, self.number, self.raw = objset, number, bytes(raw)

    type = property(lambda s: s.raw[0])
    indirect_shift = property(lambda s: s.raw[1])
    levels = property(lambda s: s.raw[2])
    pointers = property(lambda s: s.raw[3])
    bonus_type = property(lambda s: s.raw[4])
    flags = property(lambda s: s.raw[7])
    block_size = property(lambda s: struct.unpack_from('<H', s.raw, 8)[0] * 512)
    bonus_length = property(lambda s: struct.unpack_from('<H', s.raw, 10)[0])
    max_block = property(lambda s: u64(s.raw, 16))
    used = property(lambda s: u64(s.raw, 24))
    bonus_offset = property(lambda s: 64 + 128 * s.pointers)
    used_is_bytes = property(lambda s: s.flags & 1)

    def bonus_u64(self, off):
        return u64(self.raw, self.bonus_offset + off)

    def pointer(self, level, block):
        top = self.levels - 1
        if level == top:
            if block >= self.pointers:
                return BlockPointer(NO_BLOCK)
            return BlockPointer(self.raw[64 + 128 * block:192 + 128 * block])
        shift = self.indirect_shift - 7
        parent = self.pointer(level + 1, block >> shift)
        if parent.hole:
            return BlockPointer(NO_BLOCK)
        at = 128 * (block & (1 << shift) - 1)
        return BlockPointer(self.objset.pool.read(parent)[at:at + 128])

    def block(self, number):
        size = self.block_size
        if number > self.max_block:
            return bytes(size)
        bp = self.pointer(0, number)
        return bytes(size) if bp.hole else self.objset.pool.read(bp).ljust(size, b'\0')

    def data(self, length):
        size = self.block_size
        return b''.join(self.block(i) for i in range((length + size - 1) // size))[:length]

    def walk(self):
        """Every real pointer below the dnode, the spill block's included."""

        def below(bp):
            if bp.hole:
                return
            if bp.level > 0:
                raw = self.objset.pool.read(bp)
                for off in range(0, len(raw), 128):
                    if raw[off:off + 128] != NO_BLOCK:
                        yield from below(BlockPointer(raw[off:off + 128]))
            yield bp

        if self.type == 0:
            return
        for i in range(self.pointers):
            yield from below(BlockPointer(self.raw[64 + 128 * i:192 + 128 * i]))
        if self.flags & 4:
            yield BlockPointer(self.raw[-128:])


class ObjectSet:
    def __init__(self, pool, bp):
        self.pool, self.bp = pool, bp
        self.phys = pool.read(bp)
        self.meta = Dnode(self, 0, self.phys[:512])
        self.type, self.flags = u64(self.phys, 704), u64(self.phys, 712)

    def dnode(self, number):
        raw = self.meta.block(number // 32)
        off = number % 32 * 512
        if raw[off] == 0:
            raise ValueError(f'object {number} is not allocated')
        return Dnode(self, number, raw[off:off + 512 * (raw[off + 12] + 1)])

    def special(self, which):
        """The accounting objects: 1 users, 2 groups, 3 projects; None where there is none."""
        off = 512 + 512 * which
        raw = self.phys[off:off + 512]
        return Dnode(self, -which, raw) if len(raw) == 512 and raw[0] else None

    def numbers(self):
        for block in range(self.meta.max_block + 1):
            if self.meta.pointer(0, block).hole:
                continue
            raw = self.meta.block(block)
            i = 0
            while i < 32:
                if raw[i * 512]:
                    yield block * 32 + i
                    i += raw[i * 512 + 12]
                i += 1

    def zap(self, number):
        """[(name, integer size, [values])]"""
        return zap_entries(self.dnode(number))


def zap_entries(dnode):
    head = dnode.block(0)
    kind = u64(head, 0)
    if kind == 0x8000000000000003:
        rows = []
        for off in range(64, len(head), 64):
            name = head[off + 14:off + 64].split(b'\0')[0]
            if name:
                rows.append((name, 8, [u64(head, off)]))
        return rows
    if kind != 0x8000000000000001:
        raise ValueError(f'object {dnode.number} is no ZAP ({kind:#x})')
    table_block, table_blocks = u64(head, 16), u64(head, 24)
    half = len(head) // 2
    if table_block == 0:
        table = struct.unpack_from(f'<{half // 8}Q', head, half)
    else:
        table = []
        for i in range(table_blocks):
            table += struct.unpack(f'<{len(head) // 8}Q', dnode.block(table_block + i))
    rows = [row for block in sorted(set(table)) for row in zap_leaf(dnode.block(block))]
    if len(rows) != u64(head, 72):
        raise ValueError(f'ZAP {dnode.number}: {len(rows)} entries, header says {u64(head, 72)}')
    return rows


def zap_leaf(raw):
    buckets = 1 << len(raw).bit_length() - 6
    base = 48 + 2 * buckets

    def array(chunk, size):
        out = bytearray()
        while chunk != 0xFFFF:
            at = base + 24 * chunk
            out += raw[at + 1:at + 22]
            chunk = struct.unpack_from('<H', raw, at + 22)[0]
        return bytes(out[:size])

    for i in range(buckets):
        chunk = struct.unpack_from('<H', raw, 48 + 2 * i)[0]
        while chunk != 0xFFFF:
            _, size, following, name, name_length, value, count, _, _ = \
                struct.unpack_from('<BBHHHHHIQ', raw, base + 24 * chunk)
            bytes_ = array(value, count * size)
            yield (array(name, name_length)[:-1], size,
                   [int.from_bytes(bytes_[k * size:(k + 1) * size], 'big') for k in range(count)])
            chunk = following
