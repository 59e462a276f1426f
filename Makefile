# Tarn. `make` builds; `make quickstart` shows it at work; `make check` runs all tests.
BUILD  ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MESON_FLAGS ?=
NAMES = zpool zfs mount.tarn

.PHONY: all build quickstart check bench deps deps-test deps-bench asan tsan check-asan check-tsan check-seeds \
        install uninstall clean

all: build

build: $(BUILD)/build.ninja
	ninja -C $(BUILD)
	@tools/link-names $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) $(MESON_FLAGS)

deps:
	tools/install-deps build

# The judge is the reference, built once per machine (about 10 minutes).
deps-test: deps
	tools/install-deps test judge
	@if [ "$$(id -u)" = 0 ]; then tests/judge/oracle setup; \
	 else echo "not root: the tests that need the judge will be skipped"; fi

deps-bench: deps
	tools/install-deps test bench

quickstart: deps build
	tools/quickstart $(BUILD)

check: deps-test build
	tests/run --build $(BUILD)

bench: deps-bench build
	tests/bench/bench.py --build $(BUILD)
	tests/bench/read.py --build $(BUILD)
	tests/bench/snapshots.py --build $(BUILD)

# Sanitizer builds, each in a folder of its own.
asan:
	@[ -e build-asan/build.ninja ] || meson setup build-asan -Db_sanitize=address,undefined \
	  -Db_lundef=false -Doptimization=1 -Ddebug=true
	ninja -C build-asan
	@tools/link-names build-asan

tsan:
	@[ -e build-tsan/build.ninja ] || meson setup build-tsan -Db_sanitize=thread \
	  -Db_lundef=false -Doptimization=1 -Ddebug=true
	ninja -C build-tsan
	@tools/link-names build-tsan

check-asan: deps-test asan
	tests/run --build build-asan --tag asan

# Where threads meet.
TSAN_TESTS = 'unit/util/*' unit/pool/txg unit/pool/alloc unit/pool/block unit/device/queue 'unit/spa/*' \
             unit/dmu/neighbours unit/fs/threads

check-tsan: deps-test tsan
	tests/run --build build-tsan --tag tsan $(TSAN_TESTS)

# The unit tests with random input, over and over with other seeds.
SEEDS ?= 50
check-seeds: deps-test build
	for i in $$(seq $(SEEDS)); do \
	  TARN_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') tests/run --build $(BUILD) 'unit/*' || exit; done

install: build
	tools/install $(BUILD) "$(DESTDIR)$(BINDIR)"

uninstall:
	tools/install --remove "$(DESTDIR)$(BINDIR)"

clean:
	rm -rf build build-asan build-tsan
