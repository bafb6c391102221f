# Every target sets up what it needs, so each one works on a fresh clone.
#   make demo    the product doing its job on a small real training
#   make test    check + every test            make check   ruff, mypy, import-linter, caps
#   make unit    the pure tests alone: below a minute
#   make bench   tables against peers          make peers   tests beside other tools
#   make docs    the documentation as a site
#   make fuzz    200,000 mutated recordings through diagnose and report, about an hour of one core
#   make test-ray   the trainer and RLlib on Ray, in an environment of its own
#   make test-tensorflow, make test-loggers   TensorFlow and Keras; W&B, MLflow and TensorBoard, likewise
#   make accuracy   plans against trainings that are measured anew
#   make torture   everything that could harm a training, many times: half an hour
#   make judge   how often diagnose is right, on the recordings of tests/corpus: seconds
#   make corpus   records those again: half an hour or more

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# other replay buffers, beside which ours is measured
PEERS := $(VENV)-peers
# servers that speak S3, GCS and Azure, for the tests of uploads
SERVERS := $(VENV)-servers
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := src tests docs $(wildcard benchmarks examples)
# two workers at most: more would only measure each other
WORKERS ?= 2

.PHONY: docs demo unit test test-ray test-tensorflow test-loggers check bench accuracy judge corpus peers torture fuzz clean

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

PYTEST := $(BIN)/python -m pytest -q

unit: $(VENV)/.installed
	$(PYTEST) tests/unit -n $(WORKERS) --dist loadgroup

# nothing is run twice: a test holds on a busy machine, too; few need the machine for themselves
test: check $(SERVERS)/.installed
	$(PYTEST) --ignore=tests/peers -m "not serial and not ray" -n $(WORKERS) --dist loadgroup
	$(PYTEST) --ignore=tests/peers -m serial

check: $(VENV)/.installed
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q tests/process/house/test_caps.py

bench: $(VENV)/.installed-bench $(VENV)-scalene/.installed $(PEERS)/.installed
	$(BIN)/python benchmarks/run.py

accuracy: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.plan_accuracy

peers: $(VENV)/.installed-bench $(PEERS)/.installed
	$(BIN)/python -m pytest -q tests/peers
	$(PEERS)/bin/python -m pytest -q tests/peers/test_torchrl.py

judge: $(VENV)/.installed
	$(BIN)/python -m tests.corpus.judge

# paced programs, then some of them with busy cores
corpus: $(VENV)/.installed-bench
	$(BIN)/python -m tests.corpus.record
	$(BIN)/python -m tests.corpus.record --loaded

# entries, kills, hostile programs, disks that say no; writes the table of docs/torture.md
torture: $(VENV)/.installed $(SERVERS)/.installed
	nice $(BIN)/python -m tests.torture --write

# what fails is kept in fuzz-failures/
fuzz: $(VENV)/.installed
	mkdir -p fuzz-failures
	$(BIN)/python -m tests.fuzz.fuzz_recordings --count $(or $(COUNT),200000) --keep fuzz-failures

# the site, in site/: one folder that works from a disk, too
docs: $(VENV)/.installed $(VENV)-docs/.installed
	$(BIN)/python docs/cli_reference.py
	$(BIN)/python docs/known_leaks.py
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet

# RLlib pins other versions than the rest, so it has an environment of its own
test-ray: $(VENV)-ray/.installed
	$(VENV)-ray/bin/python -m pytest -q -p no:xdist --timeout-method=thread -m ray tests/process/train
	$(VENV)-ray/bin/python -m pytest -q -p no:xdist --timeout-method=thread tests/process/integrations/test_rllib.py tests/process/integrations/test_frameworks.py

test-tensorflow: $(VENV)-tensorflow/.installed
	$(VENV)-tensorflow/bin/python -m pytest -q tests/process/integrations/test_keras.py tests/process/integrations/test_tensorflow.py

test-loggers: $(VENV)-loggers/.installed
	$(VENV)-loggers/bin/python -m pytest -q tests/process/integrations/test_loggers.py

clean:
	rm -rf $(VENV) $(VENV)-scalene $(VENV)-docs $(VENV)-ray $(VENV)-tensorflow $(VENV)-loggers $(PEERS) $(SERVERS) build dist site fuzz-failures .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# dependency groups need pip 25.1
$(VENV)/.installed: pyproject.toml constraints.txt hatch_build.py $(wildcard src/ramledger/interpreter/*.[ch])
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("ramledger needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": name another one, as in `make demo PYTHON=python3.12`")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(INSTALL) --editable ".[train,sb3,yaml,upload,compress,optuna]" --group test --group check
	touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) --group bench
	touch $@

$(VENV)-docs/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mkdocs-material
	touch $@

$(VENV)-ray/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable ".[train,ray]" --group test
	touch $@

$(VENV)-tensorflow/.installed: pyproject.toml constraints-tensorflow.txt
	$(PYTHON) -m venv $(VENV)-tensorflow
	$(VENV)-tensorflow/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(VENV)-tensorflow/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-tensorflow.txt --editable ".[keras]" tensorflow-cpu gymnasium pytest pytest-timeout
	touch $@

$(VENV)-loggers/.installed: pyproject.toml constraints-loggers.txt
	$(PYTHON) -m venv $(VENV)-loggers
	$(VENV)-loggers/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(VENV)-loggers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-loggers.txt --editable . wandb mlflow tensorboard tensorboardX pytest pytest-timeout
	touch $@

# apart from the others: with torch merely installed, it hangs at the end of a profile
$(VENV)-scalene/.installed: constraints.txt
	$(PYTHON) -m venv $(VENV)-scalene
	$(VENV)-scalene/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt numpy scalene
	touch $@

# Azure's comes as a package of node; without npm its tests are skipped
AZURITE := azurite@3.35.0
$(SERVERS)/.installed: constraints-servers.txt
	$(PYTHON) -m venv $(SERVERS)
	$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-servers.txt "moto[s3]" flask flask-cors
	if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix $(SERVERS) $(AZURITE) || echo "without azurite"; fi
	touch $@

# sees all that the first environment has, and adds what would not go together with it
$(PEERS)/.installed: $(VENV)/.installed-bench benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	{ echo $(CURDIR)/src; $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; } \
	    > "$$($(PEERS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/first.pth"
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r benchmarks/peers.txt
	touch $@
