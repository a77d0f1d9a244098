# make demo | make demo-sensors | make test | make test-all | make lint | make check-core | make venv
# make core (after a change in cpp/)
PYTHON ?= python3
BIN := .venv/bin

.PHONY: venv core check-core demo demo-sensors test test-all lint format clean

venv: .venv/installed

.venv/installed: pyproject.toml CMakeLists.txt $(wildcard cpp/*/*.cpp cpp/*/*.h)
	@sh scripts/toolchain.sh
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q -U pip 'scikit-build-core>=0.11' 'nanobind>=2.7' ninja
	@$(BIN)/python -m pip install -q --no-build-isolation -e '.[plots]'
	@touch $@

.venv/installed-test: .venv/installed
	@$(BIN)/python -m pip install -q --no-build-isolation -e '.[test]'
	@touch $@

.venv/installed-lint: .venv/installed-test  # whose types mypy and pyright read
	@$(BIN)/python -m pip install -q --no-build-isolation -e '.[lint]'
	@touch $@

core:
	@$(BIN)/python -m pip install -q --no-build-isolation --no-deps -e .

check-core:
	@sh scripts/check_core.sh

demo: venv
	$(BIN)/trainload demo --out demo-out

demo-sensors: venv
	$(BIN)/trainload demo --sensors --out demo-out

test: .venv/installed-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: .venv/installed-test
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/helpers/docs_pages.py build/pages # what the pages show, as modules
	$(BIN)/mypy
	$(BIN)/mypy build/pages
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(wildcard cpp/*/*.cpp cpp/*/*.h)

format:
	$(BIN)/ruff check --fix -q . || true
	$(BIN)/ruff format -q .
	$(BIN)/clang-format -i $(wildcard cpp/*/*.cpp cpp/*/*.h)

clean:
	rm -rf .venv build
