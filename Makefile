# Every target makes its own environment: Python 3.11 and a network are all it needs.
PYTHON ?= python3
BIN := .venv/bin
NPM_INSTALL := npm install --no-save --no-audit --no-fund
export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster demo-real model browser page-tools test check format docs web bench campaign lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv itself, and what builds this package: every file is compared with a hash before it is unpacked.
BOOTSTRAP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
	-r build-requirements.txt

.venv/bin/uv: build-requirements.txt
	@echo "installing uv into .venv, by the hashes of build-requirements.txt"
	@$(PYTHON) -m venv .venv
	@$(BOOTSTRAP)
	@touch $@

# Syncing takes away what uv.lock does not hold, so that what builds the package is put there each time. Without
# isolation nothing else is fetched to build it.
.venv/ready: .venv/bin/uv pyproject.toml uv.lock
	@echo "installing what uv.lock holds into .venv, by its hashes"
	@$(BOOTSTRAP)
	@$(BIN)/uv sync --locked --quiet --all-extras --no-build-isolation-package interlock --python $(BIN)/python
	@touch $@

demo: .venv/ready ## a tour: no key, no account, no network
	@$(BIN)/interlock demo

model: .venv/ready ## a small real model for this machine, fetched once: 98 MB, needs no key
	@$(BIN)/interlock model get smollm2

demo-real: model ## a crew on that model
	@$(BIN)/interlock run examples/quiz-local "Begin the exam" $(if $(MAKE_TERMOUT),,--plain)

demo-cluster: .venv/ready ## PostgreSQL and three workers on this machine: one is killed, and every run finishes
	@$(BIN)/python -m deploy.demo_cluster

browser: ## Chromium for the tests of the page: only where there is none, from Debian, as root; else they are skipped
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "installing Debian's chromium with apt-get" && \
		apt-get update -qq >/dev/null && apt-get install -y -qq chromium >/dev/null 2>&1; } || \
		echo "there is no chromium: the tests of the page are skipped"

page-tools: .venv/ready ## what the tests of the page are built and looked at with, where there is Node; else those are skipped
	@[ -d web/node_modules ] || ! command -v npm >/dev/null || \
		(echo "installing what web/package-lock.json holds into web/node_modules" && cd web && $(NPM_INSTALL) --silent) || \
		echo "the tools of the page could not be fetched: the tests that need them are skipped"
	@[ ! -d web/node_modules ] || $(BIN)/python -m web.locked

# Not in pyproject.toml: a debugger needs the process that it is asked for in.
test: model browser page-tools ## the whole test suite
	@$(BIN)/pytest -n 3 --dist worksteal

check: .venv/ready ## format, lint, types, dependencies, then exactly what `make test` runs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m docs.programs
	@$(BIN)/deptry .
	@$(MAKE) --no-print-directory test

format: .venv/ready ## rewrite the source in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: .venv/ready ## measure, and write bench/RESULTS.md, bench/SERVER.md and bench/SCALE.md
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.server
	@$(BIN)/python -m bench.scale

campaign: model ## the long runs of crashes, power losses, damage, simulations, bad input and a real small model; writes campaign/RESULTS.md
	@$(BIN)/python -m campaign
	@$(BIN)/python -m campaign.powerloss
	@$(BIN)/python -m campaign.damage
	@$(BIN)/python -m campaign.simulation
	@$(BIN)/python -m campaign.trees
	@$(BIN)/python -m campaign.needs
	@$(BIN)/python -m campaign.memory
	@$(BIN)/python -m campaign.year
	@$(BIN)/python -m campaign.fuzz
	@$(BIN)/python -m campaign.rules_in_sql
	@$(BIN)/python -m campaign.workers
	@$(BIN)/python -m campaign.local_model

docs: .venv/ready ## write docs/reference and the generated parts of other pages from the code
	@$(BIN)/python docs/generate.py

# Not `npm ci`: it wants the builds of the tools for every other system in the lock, and not every registry has them.
# npm compares what it fetches with the lock, and web.locked what is installed afterwards.
web: .venv/ready ## build the dashboard again; needs Node 20
	@$(BIN)/python -m web.document
	@cd web && $(NPM_INSTALL)
	@$(BIN)/python -m web.locked
	@cd web && npm run types && npm test && npm run build
	@$(BIN)/python -m web.stamp

lock: .venv/bin/uv ## resolve the dependencies again
	@$(BIN)/uv lock --python $(BIN)/python

clean: ## remove the environment and every cache
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
