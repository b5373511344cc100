# Everything here sets up what it needs: a virtual environment in .venv from the locked, hashed requirements, and in the
# user's cache (STRATALOG_CACHE) Delta's jars and a MySQL server. What is there already is left alone.

# What the environment has here must not lead pip or Python elsewhere; nor make each of the many processes that start here
# compile all sources again, which takes a new process of the tests from 2 seconds to 5.
unexport PYTHONPATH PYTHONHOME SPARK_HOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_CONSTRAINT PIP_REQUIREMENT PIP_EDITABLE PIP_REQUIRE_HASHES
unexport UV_SYSTEM_PYTHON UV_CONSTRAINT UV_OVERRIDE UV_NO_BUILD UV_OFFLINE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

PY := .venv/bin/python
# uv fetches packages side by side and links them from its cache, with pyspark's wheel, which is built once. It asks the
# index that pip would ask.
UV = .venv/bin/uv pip install --python $(PY) --no-deps --require-hashes --no-build-isolation \
  $$(index=$${PIP_INDEX_URL:-$$($(PY) -m pip config get global.index-url 2>/dev/null)}; echo $${index:+--default-index $$index})
LOCKS := requirements-make.txt requirements-build.txt requirements.txt requirements-dev.txt requirements-postgres.txt
# Stamps carry what they stand for, so that a changed lock, or a tree that was moved, installs anew.
HERE := $(shell printf %s '$(CURDIR)' | cksum | cut -d' ' -f1)
KEY := $(shell cat $(LOCKS) pyproject.toml | cksum | cut -d' ' -f1)
VENV := .venv/.made-$(HERE)
RUN := .venv/.run-$(KEY)
DEV := .venv/.dev-$(KEY)
SITE := .venv/.site-$(shell cksum <requirements-docs.txt | cut -d' ' -f1)
RELEASE := .venv/.release-$(shell cksum <requirements-release.txt | cut -d' ' -f1)
STEP = printf '\033[1m%s\033[0m\n'
ifneq ($(TERM_IS_DUMB)$(CI)$(NO_COLOR),)
STEP = printf '%s\n'
endif

.NOTPARALLEL:

##@ First

.PHONY: help
help: ## this list, in the order of use
	@sed -n -e 's/^##@ //p' -e 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
	  awk -F'|' 'NF == 1 { print $$1 } NF == 2 { printf "%-20s %s\n", $$1, $$2 }'

.PHONY: install
install: $(DEV) $(SITE) $(RELEASE) ## all that the other targets install into .venv

.PHONY: demo
demo: java $(RUN) delta mysql ## the whole pipeline on an embedded MySQL server, with a report at the end
	@.venv/bin/stratalog demo

DEMO ?= demo
PORT ?= 3000
.PHONY: dev
dev: java $(RUN) delta classes ## Dagster's UI on what the demo left (DEMO=folder), or on its recorded binlogs, at PORT=3000
	@test -f '$(DEMO)/pipeline.yaml' || .venv/bin/stratalog demo --files --dir '$(DEMO)'
	@$(STEP) "Dagster's UI on $(DEMO)/pipeline.yaml; Ctrl-C ends it"
	@mkdir -p '$(DEMO)/dagster'
	@test -f '$(DEMO)/dagster/dagster.yaml' || cp docs/examples/dagster.yaml '$(DEMO)/dagster/'
	@STRATALOG_CONFIG="$$(realpath '$(DEMO)/pipeline.yaml')" DAGSTER_HOME="$$(realpath '$(DEMO)/dagster')" \
	  PYTHONWARNINGS=ignore::FutureWarning \
	  .venv/bin/dagster dev -w workspace.yaml -h 127.0.0.1 -p $(PORT)

##@ Each change

.PHONY: test-fast
test-fast: $(DEV) ## the tests that need neither Spark nor a server: seconds
	@$(STEP) 'Tests without Spark and server'
	@$(PY) -m pytest -q -n 2 -m 'not spark and not mysql and not dagster and not slow and not thorough and not long and not stores and not cluster'

.PHONY: lint
lint: $(DEV) ## ruff, mypy --strict and the import contracts
	@$(STEP) 'Lint'
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy
	@.venv/bin/lint-imports

# A file of tests stays in one process, which has its own session of Spark and its own servers.
# PROCESSES names their number for all sessions; many tests wait, so that one alone on two cores has three.
PYTEST_IN = $(PY) -m pytest -n $(patsubst 1,0,$(or $(PROCESSES),$1)) --dist loadfile --no-loadscope-reorder
PYTEST = $(call PYTEST_IN,2)

.PHONY: test
test: java lint delta classes mysql servers ## lint, then the tests of every subject: a quarter of an hour
	@$(STEP) 'The tests'
	@$(call PYTEST_IN,3) -m 'not thorough and not long and not stores and not cluster'

.PHONY: docs
docs: $(DEV) ## the pages of docs/reference anew, from the models and the command line
	@$(PY) -m docs.reference

.PHONY: site
site: $(SITE) ## the pages as a site in build/site, with search and llms.txt; a broken link fails
	@$(STEP) 'The site in build/site'
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build

BOUNDS ?= full
.PHONY: spec
spec: java $(DEV) ## the models in spec by TLC, and each without one of its guards: minutes (BOUNDS=small: one)
	@$(STEP) 'The models, and what each guard is for'
	@$(PY) -m spec.check $(BOUNDS)

##@ Longer tests

.PHONY: test-thorough
test-thorough: java $(DEV) delta classes mysql servers ## the same, more servers, random streams and faults, in one run: minutes
	@$(STEP) 'The tests, thorough ones too'
	@$(PYTEST) -m 'not long and not stores and not cluster and not processes'

# They wait for what they start, and need no session or server of their process: CI has them beside the others.
.PHONY: test-processes
test-processes: java $(DEV) delta classes mysql ## the command, Spark, Dagster and the browser, started by the tests: minutes
	@$(STEP) 'Processes that tests start'
	@$(PYTEST) -m 'processes and not long'

# The fuzzer's seeds and findings; its runs have kernels as plain Python anyhow.
FOUND = $(addprefix tests/fuzz/test_fuzz.py::test_seeds_and_findings_of_,logs documents)
CHECKED = not spark and not mysql and not long and not stores

.PHONY: test-checked
test-checked: $(DEV) ## tests of kernels and rows, and what the fuzzer found, with every load and store of a kernel checked: minutes
	@$(STEP) 'Kernels, bounds checked'
	@NUMBA_DISABLE_JIT=1 $(PYTEST) -m '$(CHECKED)' tests/spark_jobs/binlog/kernels tests/spark_jobs/binlog/rows $(FOUND)

# The only folders with tests of stores that are not tests of clusters.
STORES = tests/stores $(addprefix tests/spark_jobs/,runtime storage)

.PHONY: test-stores
test-stores: java $(DEV) delta classes mysql s3 ## lakes on S3, and on Azure and Google what differs there: servers that Go builds and npm fetches: minutes
	@$(STEP) 'Lakes on S3'
	@$(PYTEST) -m 'stores and not cluster and not long' $(STORES)
	@$(STEP) 'Lakes on Azure: what differs there'
	@STRATALOG_TEST_STORE=azure STRATALOG_RACE_COMMITS=60 $(PYTEST) -m 'azure' $(STORES)
	@$(STEP) 'Lakes on Google: what differs there'
	@STRATALOG_TEST_STORE=google STRATALOG_RACE_COMMITS=60 $(PYTEST) -m 'google' $(STORES)

# The long ones, every verb and packaging, are left out: make test-cluster CLUSTER=cluster.
CLUSTER ?= cluster and not long

.PHONY: test-cluster
test-cluster: java $(DEV) delta classes mysql s3 hadoop ## Spark Connect, a standalone cluster and YARN, which the tests start: minutes
	@$(STEP) 'Spark Connect, a standalone cluster and YARN'
	@$(PY) -m pytest -m '$(CLUSTER)' tests/cluster

.PHONY: test-connect
test-connect: java $(DEV) delta ## Dagster's assets and checks with a session of Spark Connect: minutes
	@$(STEP) "Dagster's assets and checks by Spark Connect"
	@$(PY) -m pytest -q --connect -m 'spark and not mysql and not long' tests/assets

.PHONY: test-engines
test-engines: java $(DEV) delta ## engines asked for every type and feature, into docs/query-engines.md (ENGINES='duckdb_delta …' for some); real catalogs: minutes
	@$(STEP) 'Catalogs, and query engines'
	@$(PY) -m pytest -q -n 0 tests/engines
	@$(PY) -m tests.engines.matrix

# Where make test has deltalake read, and the test's process run tasks: tests/lakes/lake_tables.py, tests/fix_spark.py.
READING = tests/pipeline tests/assets tests/dagster_project tests/spark_jobs

.PHONY: test-walk
test-walk: java $(DEV) delta mysql ## docs/dagster-project.md up to an alert, with a server and a browser, and the times of its steps: minutes
	@$(PY) -m pytest -q -n 0 tests/docs/test_dagster_project.py

.PHONY: test-versions
test-versions: java $(DEV) delta ## a few tests with the lowest and with the highest versions of pyproject.toml's ranges: minutes
	@$(STEP) 'The lowest and the highest versions'
	@$(PY) -m tests.versions lowest
	@$(PY) -m tests.versions highest

# Those that hypothesis gives examples; with CI set it would give the same ones every time.
EXAMPLES = not mysql and not dagster and not processes and not long and not stores and not cluster

# What CI leaves to a night, because it takes long and repeats by other means what CI tests.
.PHONY: test-nightly
test-nightly: java $(DEV) delta classes mysql servers s3 hadoop ## what CI leaves out: long tests, all of Azure, every kernel checked, half an hour of faults: hours
	@failed=; run() { $(STEP) "$$1"; title=$$1; shift; env "$$@" || failed="$$failed, $$title"; }; \
	run 'the models' $(PY) -m spec.check; \
	run 'long tests' $(PYTEST) -m 'long and not cluster'; \
	run 'pipelines, by Spark alone' STRATALOG_READS=spark STRATALOG_TASKS=spark $(PYTEST) -m 'spark and not long and not stores and not cluster' $(READING); \
	run 'every verb on clusters' $(PY) -m pytest -m 'cluster and long' tests/cluster; \
	run 'lakes on Azure' STRATALOG_TEST_STORE=azure STRATALOG_RACE_COMMITS=1000 $(PYTEST) -m 'stores and not long' $(STORES) tests/cluster/test_stores.py; \
	run 'a race on S3' STRATALOG_RACE_COMMITS=1000 $(PYTEST) -m 'stores' tests/stores/test_race.py; \
	run 'lakes on Google' STRATALOG_TEST_STORE=google STRATALOG_RACE_COMMITS=600 $(PYTEST) -m 'google' $(STORES); \
	run 'verbs on Google' STRATALOG_TEST_STORE=google $(PYTEST) -m 'stores' tests/stores/test_verbs.py; \
	run 'random tables of servers' STRATALOG_RUNS=6 CI= $(PYTEST) -m 'mysql and thorough' tests/differential/test_differential.py; \
	run 'more random examples' STRATALOG_EXAMPLES=300 CI= $(PYTEST) -m '$(EXAMPLES)' tests/spark_jobs; \
	run 'all of the decoder, bounds checked' NUMBA_DISABLE_JIT=1 STRATALOG_EXAMPLES=100 FUZZ_SECONDS=600 $(PYTEST) -m '$(CHECKED)' tests/spark_jobs/binlog tests/fuzz; \
	rm -rf .soak && mkdir .soak; \
	run 'half an hour of faults' $(PY) -u -m tests.soaks.soak $(SOAK_SECONDS) .soak; \
	test -z "$$failed" || { echo "failed: $${failed#, }" >&2; exit 1; }

.PHONY: fetch
fetch: $(DEV) s3 hadoop ## what tests of stores, clusters and dashboards need: jars, and programs that Go builds and npm fetches: minutes
	@$(PY) -m spark_jobs.runtime.azure >/dev/null
	@$(PY) -m spark_jobs.runtime.google >/dev/null
	@$(PY) -m tests.services.programs

FUZZ_SECONDS ?= 60
TARGETS ?= $(sort $(patsubst tests/fuzz/corpus/%_seed_corpus,%,$(wildcard tests/fuzz/corpus/*_seed_corpus)))
.PHONY: fuzz
fuzz: $(DEV) ## each fuzzer for FUZZ_SECONDS=60 (TARGETS='log rows'); what it learns stays in .fuzz, and what it finds as .fuzz/*/found-*
	@status=0; for target in $(TARGETS); do $(STEP) "Fuzzing $$target for $(FUZZ_SECONDS) seconds"; \
		$(PY) -m tests.fuzz $$target $(FUZZ_SECONDS) .fuzz/$$target || status=1; done; exit $$status

.PHONY: mutants
mutants: java $(DEV) delta classes mysql s3 ## every guard of commits, gc and deliveries taken away, and the tests that notice; GUARDS='gc waits': an hour, and goes on where it was ended
	@$(STEP) 'Mutants'
	@$(PY) -m tests.evidence mutants $(if $(GUARDS),'$(GUARDS)')

FAULTS ?= 10000
.PHONY: evidence
evidence: java $(DEV) delta classes mysql s3 ## docs/evidence.md from runs of models, traces, faults (until there are FAULTS=10000), mutants, fuzzers, hours by a clock and a soak: hours
	@$(STEP) 'Evidence'
	@status=0; for part in corpus 'models $(BOUNDS)' traces 'faults $(FAULTS)' mutants 'fuzz $(FUZZ_SECONDS)' hours 'soak $(SOAK_SECONDS)'; do \
		$(PY) -m tests.evidence $$part || status=1; done; exit $$status

SOAK_SECONDS ?= 1800
.PHONY: soak
soak: java $(DEV) delta classes mysql ## random faults under write load for SOAK_SECONDS=1800, in .soak; then what was lost and doubled
	@$(STEP) 'Soak for $(SOAK_SECONDS) seconds'
	@rm -rf .soak && mkdir .soak
	@$(PY) -u -m tests.soaks.soak $(SOAK_SECONDS) .soak

##@ Now and then

.PHONY: corpus
corpus: java $(DEV) ## this and other readers over corpus/, and the tables of docs/cases.md (READERS=go-mysql for one): minutes
	@$(STEP) 'Readers over the corpus'
	@$(PY) -m corpus.run $(READERS)

.PHONY: bench
bench: java $(DEV) delta mysql ## the benchmarks: minutes, results as tables (BENCH="decode start whole catchup" for some)
	@$(PY) -m benchmarks $(BENCH)

.PHONY: release
release: $(DEV) $(RELEASE) ## what a release is made of, in dist: the last commit, built twice and compared; the upload is yours
	@$(STEP) 'A release in dist'
	@$(PY) -m release.build

.PHONY: audit
audit: $(DEV) $(RELEASE) ## known vulnerabilities of what the locks install, where the index can be reached
	@$(STEP) 'Known vulnerabilities'
	@$(PY) -m release.audit

.PHONY: lock
lock: $(DEV) ## the locks anew from pyproject.toml and requirements*.in; LOCK_ARGS=--upgrade takes new versions
	@$(STEP) 'Locking'
	@set -e; lock() { \
	  .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	    --no-emit-index-url --no-header $(LOCK_ARGS) "$$@"; \
	}; \
	lock pyproject.toml requirements.in -o requirements.txt; \
	lock requirements-build.in -c requirements.txt -o requirements-build.txt; \
	lock pyproject.toml requirements.in requirements-dev.in --extra connect --extra otel --extra iceberg-catalog -c requirements.txt -o requirements-dev.txt; \
	for extra in connect otel docs make release postgres; do lock requirements-$$extra.in -c requirements-dev.txt -o requirements-$$extra.txt; done; \
	for alone in dbt engines; do lock requirements-$$alone.in -o requirements-$$alone.txt; done

.PHONY: pictures
pictures: java $(DEV) delta ## the pictures in docs anew: those that the browser's tests take (chromium and chromium-driver)
	@$(PY) -m pytest -q -n 0 tests/browser tests/docs/test_dagster_project.py --pictures docs/pictures --basetemp /tmp/stratalog

.PHONY: clean
clean: ## removes what was made in this tree: .venv, caches, demo; the user's cache stays
	rm -rf .venv demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .fuzz .soak .ci/log
	find . -name __pycache__ -not -path './.git/*' -type d -exec rm -rf {} +

# Set-up

.PHONY: java delta classes mysql servers s3 hadoop
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; said=$$("$$java" -version 2>&1) || { \
	  echo "Java 17 or newer is needed and $$java does not start: install a JDK 17, and put it on the PATH or name it by JAVA_HOME." >&2; exit 1; }; \
	version=$$(printf '%s\n' "$$said" | sed -n 's/.*version "\([^"]*\)".*/\1/p'); \
	major=$$(printf '%s\n' "$$version" | sed 's/^1\.//; s/[^0-9].*//'); \
	test "$${major:-0}" -ge 17 || { \
	  echo "Java 17 or newer is needed, and $$java is $${version:-of an unknown version}: install a JDK 17, and put it on the PATH or name it by JAVA_HOME." >&2; exit 1; }

delta classes mysql servers: $(RUN)
	@$(PY) -m spark_jobs.runtime.provision $@

s3: $(RUN)
	@$(PY) -m spark_jobs.runtime.s3 >/dev/null

hadoop: $(DEV)
	@$(PY) -m tests.cluster.yarn

$(VENV):
	@set -e; for python in python3.11 python3.12 python3.13 python3; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	test -n "$$found" || { echo "Python 3.11 or newer is needed, and none is on the PATH: install python3.11." >&2; exit 1; }; \
	$$found -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$$found lacks its venv module: install it (Debian and Ubuntu have it in python3-venv or python3.11-venv)." >&2; exit 1; }; \
	$(STEP) "A virtual environment in .venv, of $$($$found --version)"; \
	$$found -m venv --clear .venv
	@touch $@

$(RUN): | $(VENV)
	@$(STEP) 'The locked requirements: about 600 MB the first time, from the cache of uv later'
	@$(PY) -m pip install -q --no-deps --require-hashes -r requirements-make.txt
	@$(UV) -q -r requirements-build.txt
	@$(UV) -r requirements.txt
	@$(PY) -m pip install -q --no-deps --no-build-isolation --no-index -e .
	@$(STEP) "The decoder's machine code for this processor: half a minute to a minute"
	@$(PY) -m spark_jobs.binlog.kernels.build --here >/dev/null
	@rm -f .venv/.run-* .venv/.dev-* && touch $@

# Tests read the licences of what the image holds, Postgres's packages too.
$(DEV): $(RUN)
	@$(STEP) 'What working on it needs besides'
	@$(UV) -q -r requirements-dev.txt -r requirements-postgres.txt
	@rm -f .venv/.dev-* && touch $@

$(RELEASE): | $(VENV)
	@$(STEP) 'What make release and make audit need'
	@$(UV) -q -r requirements-release.txt
	@rm -f .venv/.release-* && touch $@

$(SITE): | $(VENV)
	@$(STEP) 'What building the site needs'
	@$(UV) -q -r requirements-docs.txt
	@rm -f .venv/.site-* && touch $@
