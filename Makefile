# Two commands matter: `make demo` and `make test`. Both set everything up by themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# What the demo and the server need is less than half of what development needs. Where that is
# installed it serves for both.
DEMO_STAMP := $(VENV)/.installed-demo
DOCS_STAMP := $(VENV)/.installed-docs
RUNNING := $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))
WRITING := $(if $(wildcard $(STAMP)),$(STAMP),$(DOCS_STAMP))
INSTALLED_FROM := pyproject.toml hatch_build.py $(wildcard protos/xla/*.proto)
SOURCES := host protos/xla_contract client server
# Where Python is told to write no bytecode, each start of a server would compile all of it anew.
COMPILE_SOURCES = $(BIN)/python -m compileall -q $(SOURCES) tests
DEMO_OUTPUT ?= build/digits.png

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-distributed docs serve test soak storms transfer-large examples programs depth conformance conformance-cpu test-mpi test-cuda test-cuda-simulated test-cuda-machine-code work-ratio fuzz fuzz-answers golden options operations ulps lint baseline types layers bench bench-cpu bench-cuda bench-sweep fmt clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

setup: $(STAMP) ## make the virtual environment and install everything for development into it (1.6 GB)

$(STAMP): $(INSTALLED_FROM)
	@$(MAKE) --no-print-directory venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(COMPILE_SOURCES)
	@touch $(STAMP)

$(DEMO_STAMP): $(INSTALLED_FROM)
	@$(MAKE) --no-print-directory venv
	$(BIN)/python -m pip install --quiet --editable '.[server,demo]'
	@$(COMPILE_SOURCES)
	@touch $(DEMO_STAMP)

$(DOCS_STAMP): $(INSTALLED_FROM)
	@$(MAKE) --no-print-directory venv
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $(DOCS_STAMP)

# Not in the line itself, which `make --dry-run` would execute: it names no other make.
FROM_DEBIAN = $(MAKE) --no-print-directory venv-of-debian

.PHONY: venv
venv:
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || $(FROM_DEBIAN)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Debian ships the venv module in a package of its own.
.PHONY: venv-of-debian
venv-of-debian:
	@rm -rf $(VENV)
	@test "$$(id -u)" = 0 || { echo "run: sudo apt-get install python3-venv"; exit 1; }
	apt-get update -qq
	apt-get install -y -qq python3-venv
	$(PYTHON) -m venv $(VENV)

demo: $(RUNNING) ## start a server and train a classifier of handwritten digits on it
	@mkdir -p $(dir $(DEMO_OUTPUT))
	$(BIN)/python client/examples/train_digits.py --output $(DEMO_OUTPUT)

demo-distributed: $(RUNNING) ## train the classifier on one device, on four at once and, where mpirun is, in two processes; compare the losses
	$(BIN)/python client/examples/train_distributed.py

serve: $(RUNNING) ## run a server on 127.0.0.1:1685
	$(BIN)/xla-server serve

docs: $(WRITING) ## write the site with the API reference to build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# Three on two processors, as tests of processes wait a good part of their time. Each begins with tests
# that follow each other, so that a file's server is mostly started once, and takes over others' last.
# They write bytecode: else each would rewrite the assertions of all tests anew.
test: lint types layers ## everything CI checks: lint, types, layers, tests; PROCESSOR=avx2 as on an older processor
	PYTHONDONTWRITEBYTECODE= $(if $(PROCESSOR),$(BIN)/python -m tests.processors $(PROCESSOR)) $(BIN)/python -m pytest -n 3 --dist worksteal

soak: $(STAMP) ## tests/fault over and over for MINUTES=12, and what that does to the server
	SOAK_MINUTES=$(or $(MINUTES),12) CONFORMANCE=full $(BIN)/python -m pytest -n 0 --timeout 900 tests/fault

storms: $(STAMP) ## the speed of a client that behaves while another one makes a storm
	$(BIN)/python -m tests.fault.storm_speed

transfer-large: $(STAMP) ## 3 GiB up and down through real processes, with bounded memory (takes 12 GiB)
	$(BIN)/python -m pytest -n 0 --timeout 900 -s tests/large/transfer_of_3_gib.py

examples: $(STAMP) ## the clients in JavaScript and Go, where node and go are installed
	$(BIN)/python -m pytest -n 0 -rs tests/e2e/pages/test_examples.py

programs: $(STAMP) ## 10,000 programs that a client compiles and never frees, on both platforms (some minutes)
	PROGRAMS=10000 $(BIN)/python -m pytest -n 2 --timeout 3600 tests/e2e/programs/test_many_programs.py

depth: $(STAMP) ## long, wide and deeply nested programs at full size, which takes an hour (`make test` takes a slice)
	DEPTH=full $(BIN)/python -m pytest -n 2 --timeout 3600 tests/depth tests/e2e/programs/test_deep_programs.py

conformance: $(STAMP) ## the whole oracle sweep against XLA's CPU backend (`make test` takes a slice)
	CONFORMANCE=full $(BIN)/python -m pytest -n 2 --timeout 1200 tests/conformance

conformance-cpu: $(STAMP) ## the same with the compiler in the interpreter's place, and what only it has
	CONFORMANCE=full CONFORMANCE_PLATFORM=cpu \
		$(BIN)/python -m pytest -n 2 --timeout 2400 tests/conformance tests/property \
		tests/unit/codegen/trace/test_elementwise.py tests/unit/codegen/lower \
		tests/unit/codegen/schedules tests/unit/codegen/compiler tests/unit/codegen/test_no_evaluators.py \
		tests/unit/codegen/functions tests/unit/passes tests/example_platform tests/ulps

test-mpi: $(STAMP) ## a server in 2 and 4 processes: all collectives, and processes that end (`make test` takes a slice)
	RANKS=2,4 $(BIN)/python -m pytest -n 0 tests/e2e/ranks tests/unit/distributed

test-cuda-simulated: $(STAMP) ## the platform cuda on the host: kernels, programs, conformance, for all types (`make test` takes a slice)
	CONFORMANCE=full $(BIN)/python -m pytest -n 2 --timeout 1200 tests/cuda_twin tests/unit/codegen/gpu \
		tests/unit/codegen/lower/indexing tests/unit/codegen/lower/reduction tests/unit/codegen/lower/test_random.py
	CONFORMANCE_PLATFORM=cuda-twin $(BIN)/python -m pytest -n 2 --timeout 1200 tests/conformance

test-cuda: $(STAMP) ## the platform cuda on a GPU, in about four minutes; ONLY=golden,libraries chooses, OUT=FILE has all failures
	$(BIN)/python -m tests.cuda.device_check --only "$(ONLY)" --out $(or $(OUT),build/test-cuda.json)

test-cuda-machine-code: $(STAMP) ## registers, spills and accesses of kernels for GPUs, by ptxas, which it installs (0.3 GB); no GPU is needed
	$(BIN)/python -m pip install --quiet --editable '.[dev,cuda-test]'
	$(BIN)/python -m pytest -n 2 --timeout 600 tests/cuda_twin/machine_code.py

work-ratio: $(STAMP) ## operations that random graphs repeat, counted; SEED= and COUNT=5000 choose
	SEED=$(SEED) COUNT=$(COUNT) $(BIN)/python -m tests.work_ratio

fuzz-answers: $(STAMP) ## random modules on cpu, interpreter and jaxlib for SECONDS=600; SEED= repeats a run
	$(BIN)/python -m tests.fuzz.answers --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

fuzz: $(STAMP) ## mutated modules on servers of both platforms for SECONDS=600; SEED= repeats a run
	$(BIN)/python -m tests.fuzz.mutants --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

golden: $(STAMP) ## write tests/golden and docs/KERNELS.md: the kernels of a few programs, to see what a change changes
	$(BIN)/python -m tests.golden
	$(BIN)/python -m tests.kernels_page

options: $(STAMP) ## write the tables of options and variables on docs/SERVER.md
	$(BIN)/python -m tests.server_page

operations: $(STAMP) ## write docs/OPERATIONS.md: operations, element types, platforms
	$(BIN)/python -m tests.operations_page

ulps: $(STAMP) ## write docs/FUNCTIONS.md: errors of functions; FUNCTIONS=exp,tanh TYPES=f32 narrow it, WHOLE=1 takes every f32
	$(BIN)/python -m tests.ulps --functions "$(FUNCTIONS)" --types "$(TYPES)" $(if $(WHOLE),--whole)

lint: $(STAMP) ## ruff, prose, private members and buf: style, formatting, words, and that no client of the protos breaks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.prose
	$(BIN)/python -m tests.private_members
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against protos/baseline.binpb

baseline: $(STAMP) ## write protos/baseline.binpb: what protos/ must stay compatible with
	$(BIN)/buf build protos --exclude-source-info -o protos/baseline.binpb

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy --num-workers 2

layers: $(STAMP) ## import-linter: imports go one way
	$(BIN)/lint-imports

bench: $(STAMP) ## ratios against peers measured in the same run; ISA=avx2 does without AVX-512 on both sides
	$(BIN)/python -m tests.benchmarks $(if $(ISA),--isa $(ISA))
	$(BIN)/python -m tests.benchmarks.compiled $(if $(ISA),--isa $(ISA))

bench-cpu: $(STAMP) ## run and compile time against XLA's CPU backend; ONLY=softmax,matmul chooses, ISA=avx2 as above
	$(BIN)/python -m tests.benchmarks.compiled $(if $(ISA),--isa $(ISA))

bench-cuda: $(STAMP) ## a GPU's copies and launches, and programs against JAX on the same GPU; ONLY= and SECONDS= choose, OUT=FILE has all figures
	ONLY="$(ONLY)" SECONDS="$(SECONDS)" OUT="$(OUT)" $(BIN)/python -m tests.benchmarks.cuda

bench-sweep: $(STAMP) ## run time of random programs against XLA's CPU backend; SEED=, COUNT=, ONLY=, ISA= choose
	$(BIN)/python -m tests.benchmarks.sweep $(if $(ISA),--isa $(ISA)) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(ONLY),--only $(ONLY))

fmt: $(STAMP) ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the targets made
	rm -rf $(VENV) build dist protos/xla_contract/stubs .mypy_cache .ruff_cache .pytest_cache
