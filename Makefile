# Two commands matter: `make demo` and `make test`. Both set everything up by themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SOURCES := protos/xla_contract client server
DEMO_OUTPUT ?= build/digits.png

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test soak transfer-large conformance conformance-cpu work-ratio golden operations ulps lint baseline types layers bench bench-cpu bench-sweep fmt clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

setup: $(STAMP) ## make the virtual environment and install everything into it

$(STAMP): pyproject.toml hatch_build.py $(wildcard protos/xla/*.proto)
	@$(PYTHON) -m venv $(VENV) || $(MAKE) --no-print-directory venv-of-debian
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

# Debian ships the venv module in a package of its own.
.PHONY: venv-of-debian
venv-of-debian:
	@rm -rf $(VENV)
	@test "$$(id -u)" = 0 || { echo "run: sudo apt-get install python3-venv"; exit 1; }
	apt-get update -qq
	apt-get install -y -qq python3-venv
	$(PYTHON) -m venv $(VENV)

demo: $(STAMP) ## start a server and train a classifier of handwritten digits on it
	@mkdir -p $(dir $(DEMO_OUTPUT))
	$(BIN)/python client/examples/train_digits.py --output $(DEMO_OUTPUT)

serve: $(STAMP) ## run a server on 127.0.0.1:1685
	$(BIN)/xla-server serve

# Three on two processors, as tests of processes wait a good part of their time.
test: lint types layers ## everything CI checks: lint, types, layers, tests; PROCESSOR=avx2 as on an older processor
	$(if $(PROCESSOR),$(BIN)/python -m tests.processors $(PROCESSOR)) $(BIN)/python -m pytest -n 3

soak: $(STAMP) ## tests/fault over and over for MINUTES=12, and what that does to the server
	SOAK_MINUTES=$(or $(MINUTES),12) $(BIN)/python -m pytest -n 0 --timeout 900 tests/fault

transfer-large: $(STAMP) ## 3 GiB up and down through real processes, with bounded memory (takes 12 GiB)
	$(BIN)/python -m pytest -n 0 --timeout 900 -s tests/large/transfer_of_3_gib.py

conformance: $(STAMP) ## the whole oracle sweep against XLA's CPU backend (`make test` takes a slice)
	CONFORMANCE=full $(BIN)/python -m pytest -n 2 --timeout 1200 tests/conformance

conformance-cpu: $(STAMP) ## the same with the compiler in the interpreter's place, and what only it has
	CONFORMANCE=full CONFORMANCE_PLATFORM=cpu \
		$(BIN)/python -m pytest -n 2 --timeout 2400 tests/conformance tests/property \
		tests/unit/codegen/trace/test_elementwise_types.py tests/unit/codegen/lower/test_convolution.py \
		tests/unit/codegen/test_no_evaluators.py

work-ratio: $(STAMP) ## operations that random graphs repeat, counted; SEED= and COUNT=5000 choose
	SEED=$(SEED) COUNT=$(COUNT) $(BIN)/python -m tests.work_ratio

golden: $(STAMP) ## write tests/golden: the kernels of a few programs, to see what a change changes
	$(BIN)/python -m tests.golden

operations: $(STAMP) ## write docs/OPERATIONS.md: operations, element types, platforms
	$(BIN)/python -m tests.operations_page

ulps: $(STAMP) ## write docs/FUNCTIONS.md: errors of functions; FUNCTIONS=exp,tanh TYPES=f32 narrow it, WHOLE=1 takes every f32
	$(BIN)/python -m tests.ulps --functions "$(FUNCTIONS)" --types "$(TYPES)" $(if $(WHOLE),--whole)

lint: $(STAMP) ## ruff and buf: style and formatting, and that no client of the protos breaks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against protos/baseline.binpb

baseline: $(STAMP) ## write protos/baseline.binpb: what protos/ must stay compatible with
	$(BIN)/buf build protos --exclude-source-info -o protos/baseline.binpb

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

layers: $(STAMP) ## import-linter: imports go one way
	$(BIN)/lint-imports

bench: $(STAMP) ## ratios against peers measured in the same run
	$(BIN)/python -m tests.benchmarks
	$(BIN)/python -m tests.benchmarks.compiled

bench-cpu: $(STAMP) ## run and compile time against XLA's CPU backend; ONLY=softmax,matmul chooses
	$(BIN)/python -m tests.benchmarks.compiled

bench-sweep: $(STAMP) ## run time of random programs against XLA's CPU backend; SEED=, COUNT=, ONLY= choose
	$(BIN)/python -m tests.benchmarks.sweep $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(ONLY),--only $(ONLY))

fmt: $(STAMP) ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the targets made
	rm -rf $(VENV) build dist protos/xla_contract/stubs .mypy_cache .ruff_cache .pytest_cache
