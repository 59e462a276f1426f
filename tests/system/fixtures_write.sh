#!/usr/bin/env bash
# Pools of the reference, with log space maps and snapshots, imported read-write: files are added and
# removed, and zdb finds every block accounted for.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${TARN_BUILD:-$(cd "$here/../.." && pwd)/build}
export PATH=$build/bin:$PATH
dir=$(mktemp -d /var/tmp/tarn-fixtures-write.XXXXXX)
export TARN_RUN_DIR=$dir/run
mkdir "$TARN_RUN_DIR"
pool=
finish() {
  [ -z "$pool" ] || zpool export -f "$pool" >/dev/null 2>&1 || true
  rm -rf --one-file-system "$dir"
}
trap finish EXIT
for name in basic stripe aged lay-raidz1 lay-raidz3; do
  zstd -q -d --long=31 -c "$here/../fixtures/$name.tar.zst" | tar -x --sparse -C "$dir"
  zpool import -d "$dir/$name" -R "$dir/mnt" "$name"
  pool=$name
  [ "$(zpool get -H -o value readonly "$name")" = off ] || { echo "$name is read-only"; exit 1; }
  top=$(zfs get -H -o value mountpoint "$name")
  cp -r "$here/../lib" "$top/new"
  zpool sync "$name"
  rm -r "$top/new"
  zpool sync "$name"
  cp -r "$here/../judge" "$top/again"
  zpool export "$name"
  pool=
  "$here/../judge/oracle" zdb -e -p "$dir/$name" -bcc "$name" >"$dir/zdb" 2>&1 || { cat "$dir/zdb"; exit 1; }
  grep -q 'No leaks' "$dir/zdb" || { tail -30 "$dir/zdb"; exit 1; }
  echo "ok - $name"
done
