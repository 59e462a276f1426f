#!/usr/bin/env python3
"""manifest.py DIR [BIG]: one JSON line per file below DIR, sorted by path; two trees are equal when their manifests are.
Of files larger than BIG bytes (default 4 GiB) only the data extents are hashed, block by block."""
import base64, hashlib, json, os, stat, sys

def opener(path, flags):                     # looking changes nothing, not even the access time
    try: return os.open(path, flags | os.O_NOATIME)
    except PermissionError: return os.open(path, flags)

def entry(top, path):
    st = os.lstat(path)
    e = {'path': os.fsdecode(os.path.relpath(path, top)), 'mode': oct(st.st_mode), 'uid': st.st_uid, 'gid': st.st_gid,
         'mtime_ns': st.st_mtime_ns}
    if not stat.S_ISDIR(st.st_mode):
        e['nlink'] = st.st_nlink; e['size'] = st.st_size
    if stat.S_ISREG(st.st_mode):
        h = hashlib.sha256()
        if st.st_size > BIG:                      # huge sparse ones: their data extents only
            with open(path, 'rb', opener=opener) as f:
                pos = 0
                while True:
                    try: pos = os.lseek(f.fileno(), pos, os.SEEK_DATA)
                    except OSError: break
                    end = os.lseek(f.fileno(), pos, os.SEEK_HOLE)
                    f.seek(pos); blob = f.read(end - pos)
                    for i in range(0, len(blob), 4096):
                        if blob[i:i + 4096].strip(b'\0'): h.update(b'%d:' % (pos + i) + blob[i:i + 4096])
                    pos = end
            e['extents_sha256'] = h.hexdigest()
        else:
            with open(path, 'rb', opener=opener) as f:
                for b in iter(lambda: f.read(1 << 20), b''): h.update(b)
            e['sha256'] = h.hexdigest()
    elif stat.S_ISLNK(st.st_mode):
        e['target'] = os.readlink(path)
    elif stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
        e['rdev'] = [os.major(st.st_rdev), os.minor(st.st_rdev)]
    try:
        x = {n: base64.b64encode(os.getxattr(path, n, follow_symlinks=False)).decode() for n in sorted(os.listxattr(path, follow_symlinks=False))}
        if x: e['xattr'] = x
    except OSError:
        pass
    return e

top = sys.argv[1]
BIG = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 32
rows = []
for d, subs, files in os.walk(top):
    rows += [entry(top, os.path.join(d, n)) for n in subs + files]
for e in sorted(rows, key=lambda e: e['path'].encode('utf8', 'surrogateescape')):
    print(json.dumps(e, sort_keys=True))
