"""Ways to fill a mounted file system. Each is deterministic by its random.Random."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import judge


def tree(mnt, rng, scale='small'):
    """The tree of corner cases."""
    judge.tree(os.path.join(mnt, f'tree{rng.randrange(1000)}'), rng.randrange(1 << 30), scale)


def full_tree(mnt, rng):
    tree(mnt, rng, 'full')


def many(mnt, rng, count=4000):
    """One directory of many files, grown and thinned out, so that its table splits and shrinks."""
    top = os.path.join(mnt, 'many')
    os.makedirs(top, exist_ok=True)
    for i in range(count):
        with open(os.path.join(top, f'{rng.randrange(1 << 40):010x}-{i}'), 'wb') as f:
            f.write(b'%d' % i)
    names = sorted(os.listdir(top))
    for name in rng.sample(names, len(names) // 2):
        os.unlink(os.path.join(top, name))


def big(mnt, rng, megabytes=24):
    """A large file, then overwritten, cut and punched at odd places, in several txgs."""
    path = os.path.join(mnt, 'big')
    chunk = rng.randbytes(1 << 20)
    with open(path, 'wb') as f:
        for i in range(megabytes):
            f.write(chunk[i:] + chunk[:i])
    for _ in range(4):
        with open(path, 'r+b') as f:
            for _ in range(30):
                f.seek(rng.randrange(megabytes << 20))
                f.write(rng.randbytes(rng.randrange(1, 50000)))
            f.flush()
            os.fsync(f.fileno())
            f.truncate(rng.randrange(megabytes << 19, megabytes << 20))
    with open(path, 'ab') as f:
        f.write(b'the end')


def churn(mnt, rng, rounds=8):
    """Files written, rewritten, cut, renamed and removed, over several txgs (fsync ends one)."""
    for _ in range(rounds):
        for _ in range(40):
            folder = os.path.join(mnt, 'churn', f'd{rng.randrange(6)}')
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f'f{rng.randrange(25)}')
            kind = rng.randrange(7)
            if kind < 3:
                with open(path, 'wb') as f:
                    f.write(rng.randbytes(rng.choice([10, 900, 9000, 140000])))
            elif not os.path.exists(path):
                continue
            elif kind == 3:
                with open(path, 'r+b') as f:
                    f.seek(rng.randrange(150000))
                    f.write(rng.randbytes(rng.randrange(1, 9000)))
            elif kind == 4:
                os.unlink(path)
            elif kind == 5:
                os.truncate(path, rng.randrange(300000))
            else:
                os.rename(path, path + 'r')
        fd = os.open(os.path.join(mnt, 'churn'), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
