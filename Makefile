# SPDX-License-Identifier: Apache-2.0
# Two commands on a fresh Debian 12: `make demo` and `make test`. The others are for developers.
VENV   ?= .venv
PY     := $(VENV)/bin/python
PYTHON ?= python3
# What the product needs, and what only its tests need (other compilers, sanitizers, C formatting).
APT_RUN  := gcc libc6-dev make cmake python3-venv \
  gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
APT_TEST := g++ ninja-build abigail-tools zsh fish clang tcc libclang-rt-14-dev llvm git libdnnl-dev libopenblas-dev \
  libxnnpack-dev libpthreadpool-dev \
  qemu-system-misc qemu-user \
  gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross \
  gcc-arm-linux-gnueabihf libc6-dev-armhf-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross clang-16 \
  gcc-i686-linux-gnu libc6-dev-i386-cross
# Libraries for arm64, which tests run under qemu-user: unpacked into build/arm64, not installed.
ARM64_FULL := libxnnpack0 libxnnpack-dev libpthreadpool0 libpthreadpool-dev libcpuinfo0 \
  libarm-compute20 libarm-compute-dev
# The headers of cuDNN and CUDA, with libraries of 1.3 GB, to compile against.
CUDA_WHEELS := $(patsubst %,nvidia-%-cu12,cudnn cublas cuda-runtime cuda-nvcc cuda-cccl)
# What only static analysis, the package for Cargo (260 MB) and proofs need.
APT_FULL := clang-tidy cppcheck rustc cargo
# A browser, and npm for what checks pages in it, unless Node.js of another source brings it: Debian's
# package then does not install beside it.
APT_PAGES := chromium $(if $(shell command -v npm 2>/dev/null),,npm)
APT_PROVE := frama-c-base
JOBS   ?= 2

.PHONY: help demo quick test full hostile misfits sizes streams quantising fuzz-loader check format fresh conformance docs site golden picture bench clean fuzz zoo \
  coverage stack codes stack-check analyse prove full-tests full-bench
help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

APT := @sh scripts/apt_install.sh
PIP := @$(PY) -m pip install -q --disable-pip-version-check

$(VENV)/.run: pyproject.toml Makefile
	$(APT) $(APT_RUN)
	@echo "installing aotc in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run extras/pyproject.toml
	$(APT) $(APT_TEST)
	@echo "installing what the tests need in $(VENV)"
	$(PIP) -e '.[test,check,docs,extras]'
	$(PIP) --no-deps -e extras
	@touch $@

demo: $(VENV)/.run ## the digits model on this machine, and in int8 on an emulated Cortex-M4
	@$(PY) examples/digits/demo.py

# One worker more than cores: each waits for programs and the disk a tenth of its time.
test: $(VENV)/.test ## install what the tests need and run them
	$(PY) -m pytest -n $$(($(JOBS) + 1))

# Python alone but for one network that tests/cli compiles, builds and runs. The folders are named, for
# collecting all tests takes longer than running these.
QUICK := $(addprefix tests/,load shapes normalise partition plan emit_c cli test_style.py test_house.py)
quick: $(VENV)/.test ## the tests of a change in Python: under a minute of two idle cores
	$(PY) -m pytest -n $(JOBS) $(QUICK)

# Each part by itself too; the others go on where one fails.
FULL := full-tests conformance hostile misfits sizes streams quantising analyse prove coverage stack-check fresh full-bench
full: $(VENV)/.test ## every figure, by hand before a release: a day of two cores
	@$(MAKE) -k $(FULL)

build/axe:
	$(APT) $(APT_PAGES)
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix $@ axe-core@4.14.1

build/arm64: scripts/arm64_sysroot.sh
	sh scripts/arm64_sysroot.sh $@ $(ARM64_FULL)

full-tests: $(VENV)/.test build/axe build/arm64
	$(APT) $(APT_FULL)
	$(PIP) -e '.[zig,torch]'
	AOT_FULL=1 $(PY) -m pytest -n $(JOBS)
	$(PY) -m pytest tests/vendor/test_backend.py --backend accel_sim
	$(PY) -m pytest tests/vendor/test_backend.py --backend xnnpack
	acl_ROOT=$(CURDIR)/build/arm64 $(PY) -m pytest tests/vendor/test_backend.py --backend acl \
	  --backend-target aarch64-linux
	rm -rf build/cudnn && $(PY) tests/vendor/cudnn_roots.py build/cudnn
	cudnn_ROOT=$(CURDIR)/build/cudnn $(PY) -m pytest tests/vendor/test_backend.py --backend cudnn
	$(PIP) --no-deps --target build/cuda $(CUDA_WHEELS)
	AOT_FULL=1 AOT_CUDA_WHEELS=build/cuda $(PY) -m pytest tests/vendor/test_cudnn.py -k real_headers
	ort_ROOT=$$($(PY) -c 'import onnxruntime as o; print(o.__path__[0])') $(PY) -m pytest \
	  tests/vendor/test_backend.py --backend ort:Conv+Gemm+MatMul+Softmax+Add+Sub+Mul+Max+Min+Relu+Exp+Tanh

full-bench: $(VENV)/.test
	$(PY) benchmarks/all.py

fresh: ## the wheel in fresh environments: oldest and newest dependencies, and no compiler in sight
	scripts/fresh.sh $(PYTHON) lowest-direct
	scripts/fresh.sh $(PYTHON) highest
	scripts/without_compiler.sh $(PYTHON)

stack-check: $(VENV)/.test
	$(PY) benchmarks/stack.py --check

# Neither Python nor a model: a C compiler and CMake. VLEN="1;4;8;16" and SANITIZE=ON are its options.
VLEN     ?= native
SANITIZE ?= OFF
kernels: ## the tests in C of runtime_c/kernels alone; VLEN="1;4;8;16" SANITIZE=ON for more
	cmake -S runtime_c/tests -B build/kernels "-DVLEN=$(VLEN)" -DSANITIZE=$(SANITIZE)
	cmake --build build/kernels --parallel $(JOBS)
	ctest --test-dir build/kernels --output-on-failure --parallel $(JOBS)

check: ## ruff, mypy --strict, formatting of the C files
	@$(MAKE) -s $(VENV)/.test >/dev/null
	$(VENV)/bin/ruff check -q .
	$(VENV)/bin/ruff format -q --check .
	$(VENV)/bin/mypy
	@git ls-files 'runtime_c/*.[ch]' | xargs -r $(VENV)/bin/clang-format --dry-run -Werror

format: $(VENV)/.test ## rewrite Python and C files in the house format
	$(VENV)/bin/ruff check -q --fix .
	$(VENV)/bin/ruff format -q .
	@git ls-files 'runtime_c/*.[ch]' | xargs -r $(VENV)/bin/clang-format -i

conformance: $(VENV)/.test ## every test of the installed onnx; SAN=1 sanitized, ON=aarch64|cortex-m4 a third there
	$(PY) tests/conformance/run.py --jobs $(JOBS) $(if $(SAN),--sanitize) $(if $(ON),--on $(ON) --share)

docs: $(VENV)/.test ## regenerate docs/cli.md, docs/operators.md, docs/canonical.md and tables of docs/new-backend.md, ARCHITECTURE.md
	$(PY) scripts/reference.py
	$(PY) -m aot.cli.canonical
	$(PY) scripts/vendor_names.py
	$(PY) scripts/files.py

site: $(VENV)/.test ## the documentation as a site in build/site; strict
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict -q

ONLY   ?=
zoo: $(VENV)/.test ## compile hundreds of models of packages and exporters: docs/zoo.md (hours, 10 GB; ONLY=WORD)
	$(PY) tests/zoo/run.py $(if $(ONLY),--only "$(ONLY)")

SEED   ?= 0
N      ?= 500
fuzz: $(VENV)/.test ## N random models from SEED on against two oracles, sanitised (SEED=0 N=500)
	$(PY) tests/fuzz --seed $(SEED) -n $(N)

picture: $(VENV)/.test ## the pictures of docs/gallery.md, by chromium
	$(APT) chromium
	PYTHONPATH=scripts $(PY) tests/gallery.py

golden: $(VENV)/.test ## renew the golden files
	$(PY) -m pytest tests --update-golden

bench: $(VENV)/.test ## measure again and rewrite the tables of benchmarks/README.md
	$(PY) benchmarks/all.py

hostile: $(VENV)/.test ## compile every hostile model of tests/hostile (about half an hour)
	$(PY) tests/hostile/run.py --jobs $(JOBS)

coverage: $(VENV)/.test ## branch coverage of runtime_c by the tests that run here; 95 % or it fails
	$(PY) tests/branches.py

stack: $(VENV)/.test ## measure what kernels take of the stack again: aot/plan/stack/frames.json (an hour)
	$(PY) benchmarks/stack.py

codes: $(VENV)/.test ## measure the code of kernels on boards again: aot/plan/code_sizes (an hour)
	$(PY) benchmarks/code_sizes.py

SECONDS ?= 600
misfits: $(VENV)/.test ## every operand of every declared case in shapes that do not fit, sanitised
	$(PY) tests/fuzz/misfits.py

sizes: $(VENV)/.test ## every declared case with its axes open (--dim), at several sizes, sanitised
	$(PY) tests/fuzz/sizes.py

streams: $(VENV)/.test ## random models with states (--state) for three steps, sanitised
	$(PY) tests/fuzz/streams.py -n 10000

quantising: $(VENV)/.test ## random float models through aotc quantize, against the float results
	$(PY) tests/fuzz/quantising.py -n 10000

fuzz-loader: $(VENV)/.test ## coverage-guided fuzzing of the loader; SECONDS=N, findings in build/fuzz
	$(PIP) -e '.[fuzz]'
	$(PY) tests/hostile/fuzz_loader.py -max_total_time=$(SECONDS)

analyse: $(VENV)/.test ## gcc -fanalyzer, clang-tidy, cppcheck with MISRA; UPDATE=1 counts sites again
	$(APT) $(APT_FULL)
	$(PY) tests/analyse/run.py --jobs $(JOBS) $(if $(UPDATE),--update)

prove: $(VENV)/.test ## Frama-C: small models have no undefined behaviour
	$(APT) $(APT_PROVE)
	$(PY) tests/analyse/prove.py

clean: ## remove what the build made
	rm -rf $(VENV) build dist *.egg-info out
