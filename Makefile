# Every target sets itself up first; setup.sh does nothing where that has been done.
BIN := .venv/bin

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv and install everything into it (PYTHON=python3.12 chooses the interpreter, GPU=1 packages for a GPU)
	@PYTHON="$(PYTHON)" GPU="$(GPU)" ./setup.sh

demo: export SETUP_FOR = demo
demo: setup ## the default job: export, serve and load two models, and print their verdicts
	@$(BIN)/python -m tools.demo

# Tests start hundreds of processes: where PYTHONDONTWRITEBYTECODE is set, each would compile all modules anew.
# A process that crashes is a failure, and is not replaced: pytest-xdist may then wait for ever.
test: setup ## the fast tests
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 -m "not slow and not gpu and not peer"

fuzz: setup ## hostile input for ten minutes; what breaks goes into tests/fuzz/corpus (FUZZ="--minutes 60 metrics")
	@$(BIN)/python -m tests.fuzz $(FUZZ)

# OpenVINO's bf16 and its single operations ask the CPU and not the variable, and end with a crash.
COMPUTES := tests/kernels/families tests/kernels/libraries tests/tools/test_support_matrix.py tests/servemark/models tests/servemark/quality tests/exporters tests/servers tests/pipelines tests/recipes
OLD_CPU := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2
test-rounding: setup ## what computes, with kernels of an older CPU and of this one, with 1 and 2 threads
	@for threads in 1 2; do for kernels in "$(OLD_CPU)" ""; do \
		echo "$$threads threads, kernels: $${kernels:-of this CPU}"; \
		env $$kernels OMP_NUM_THREADS=$$threads $(BIN)/python -m pytest -q \
			-m "not slow and not gpu and not peer" -k "not openvino_bf16 and not float64_says[openvino]" $(COMPUTES) || exit; done; done

test-slow: setup ## full-size models and long runs
	@$(BIN)/python -m pytest -m "slow and not gpu and not peer"

test-gpu: setup ## what needs an NVIDIA GPU: tests and comparisons into docs/results/<gpu>, in 45 min
	@$(BIN)/python -m tools.gpu_session

lint: setup ## ruff, mypy --strict, import layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: setup ## the documentation as a site with search, in build/docs; a broken link is an error
	@$(BIN)/python -m sphinx -q -n -W --keep-going -b html -c docs . build/docs/$$($(BIN)/python -c "import servemark; print(servemark.__version__)")

release: setup ## source distribution, wheel and notes in build/dist; a pushed tag publishes them (.github/workflows)
	@$(BIN)/python -m tools.release

clean: ## remove .venv and caches; models, data and results stay
	rm -rf .venv .venv-tensorflow .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build docs/reference/made servemark.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup demo test test-rounding fuzz test-slow test-gpu lint docs release clean
