# Every target makes the virtual environment it needs; all that must be there is make and Python 3.11 or newer.
# The work itself is in tools/, so that it can be read, checked and run without make.

.DEFAULT_GOAL := help
.PHONY: help install demo test soak mutants evidence bench bench-lan bench-quick bench-peers docs site constraints clean
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

HOURS ?= 1
ARGS ?=
# To choose an interpreter: make test PYTHON=python3.12
PYTHON ?=

VENV_PYTHON := .venv/bin/python
# What is measured runs on uvloop and writes its trace, as a daemon that is installed for use.
BENCH_EXTRAS := speed,trace

# Tries each candidate by running it, since a shim may be on the path with no interpreter behind it.
# $(call install,EXTRAS,MORE): make .venv and install the project with these extras, unless that is done already; and
# with MORE, where that works.
define install
@for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
		exec "$$candidate" tools/bootstrap.py --extras "$(1)" --if-possible "$(2)"; \
	fi; \
done; \
echo "isotone: Python 3.11 or newer is needed; tried $(PYTHON) python3 and python3.11 to python3.14." >&2; \
echo "         Install one, or name it: make PYTHON=/path/to/python3" >&2; \
exit 3
endef

help: ## Show the targets
	@echo "make demo              a replicated bank on five daemons in three sites: a kill, a partition; verdicts, demo/report.html"
	@echo "                       ARGS=\"--break swap\" plants a bug, and shows which messages prove it"
	@echo "make test              lint, format, types, documents and all tests; ARGS=\"-k ring\" goes to pytest"
	@echo "make soak HOURS=8      seeds and faults for hours; goes on where it stopped; report in soak/"
	@echo "make mutants           wrong comparisons, guards and constants: are they noticed? ARGS=\"--package corel\""
	@echo "make evidence          which results are older than the code they judge; ARGS=--run makes those again"
	@echo "make bench             throughput and latency of this machine; ARGS goes to isotone.bench"
	@echo "make bench-lan         Isotone and the peers that are installed on one workload, about an hour; ARGS=\"--resume\""
	@echo "make bench-quick       CPU per message against the committed result, under two minutes; warns"
	@echo "make bench-peers       install Corosync from Debian's packages, to be measured beside us; needs root"
	@echo "make docs              check links and Python examples in the documentation"
	@echo "make site              build the documentation site in build/site; ARGS=\"--serve 8000\" shows it"
	@echo "make install           only make .venv with everything for development"
	@echo "make constraints       renew constraints.txt with the newest versions"
	@echo "make clean             remove .venv, caches and results; keeps soak/"

install:
	$(call install,dev)

# The story and its picture come first; Spark, which is large, is installed behind them for the report. Where that cannot
# be, or is not wanted, the demo goes without. A violation that the first finds ends it with 1 behind the report.
ifeq ($(filter --no-report --simulated --json --only-report,$(ARGS)),)
demo:
	$(call install,,)
	@$(VENV_PYTHON) -m isotone.cli demo $(ARGS) --no-report || { code=$$?; [ $$code -eq 1 ] || exit $$code; }
	$(call install,,pipeline)
	@$(VENV_PYTHON) -m isotone.cli demo $(ARGS) --only-report
else
demo:
	$(call install,,$(if $(filter --only-report,$(ARGS)),pipeline))
	@$(VENV_PYTHON) -m isotone.cli demo $(ARGS)
endif

test:
	$(call install,dev)
	@$(VENV_PYTHON) tools/run_tests.py -- $(ARGS)

soak:
	$(call install,pipeline)
	@$(VENV_PYTHON) tools/soak.py --hours $(HOURS) $(ARGS)

mutants:
	$(call install,dev)
	@$(VENV_PYTHON) tools/mutants.py $(ARGS)

evidence:
	$(call install,dev)
	@$(VENV_PYTHON) tools/evidence.py $(ARGS)

bench:
	$(call install,$(BENCH_EXTRAS))
	@$(VENV_PYTHON) -m isotone.bench $(ARGS)

bench-lan:
	$(call install,$(BENCH_EXTRAS))
	@$(VENV_PYTHON) -m isotone.cli bench lan --report bench-results/lan.html --exhibits bench-results $(ARGS)

bench-quick:
	$(call install,$(BENCH_EXTRAS))
	@$(VENV_PYTHON) -m isotone.cli bench quick $(ARGS)

bench-peers:
	$(call install,)
	@$(VENV_PYTHON) tools/install_peers.py

site:
	$(call install,site)
	@$(VENV_PYTHON) tools/build_site.py $(ARGS)

docs:
	$(call install,)
	@$(VENV_PYTHON) tools/check_docs.py

constraints:
	$(call install,dev)
	@$(VENV_PYTHON) tools/renew_constraints.py

clean:
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist bench-results
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
