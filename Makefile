# make course    set up once, then open the first lesson
# make test      the same environment; every check there is
# make demo      the terminal tour
#
# PYTHON=…       the Python to build on; if it has PyTorch, that PyTorch is kept (your CUDA build, say)
# ARGS=…         passed on, for example ARGS=--no-browser

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
SITE := $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The folder of a PyTorch that is to be kept: only when PYTHON was given, not for whatever python3 happens to be.
# Once kept it stays kept: a later make, after an update say, finds its folder in .venv.
KEPT = $(if $(filter command% environment%,$(origin PYTHON)),$(shell $(PYTHON) -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])' 2>/dev/null),$(shell cat .venv/lib/python*/site-packages/kept-torch.pth 2>/dev/null))

.PHONY: course test demo pictures clean .venv

course: .venv
	@$(BIN)/course start $(ARGS)

demo: .venv
	@$(BIN)/minipar demo $(ARGS)

test: export COURSE_DATA = $(CURDIR)/.venv/test-data
test: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/nbstripout --verify --keep-count --keep-id notebooks/*.ipynb
	$(BIN)/pytest -n 3 --dist loadfile -m "not alone" $(ARGS) tests
	$(BIN)/pytest -m alone $(ARGS) tests || [ $$? = 5 ]  # 5: ARGS have left none
	$(BIN)/pytest -n 2 --dist loadfile --nbval-lax --nbval-current-env --nbval-cell-timeout=120 notebooks

pictures: .venv
	$(BIN)/python docs/pictures.py

.venv: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "Python 3.10 or newer is needed; name one with: make course PYTHON=python3.12"; exit 1; }
	@echo "Setting up .venv. This happens once and takes some minutes (1.5 GB, most of it PyTorch)."
	$(PYTHON) -m venv .venv
	$(if $(KEPT),grep -v '^\(torch\|numpy\)==' constraints.txt >.venv/constraints.txt && echo '$(KEPT)' >"$(SITE)/kept-torch.pth",cp constraints.txt .venv/constraints.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .venv/constraints.txt -e '.[test]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis artefacts *.egg-info
