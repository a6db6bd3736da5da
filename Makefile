# Everything a developer or CI does with this repository. `make` alone lists it.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory
export GOFLAGS := $(strip $(GOFLAGS) -mod=readonly)

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X telegraf-hpc/internal/version.version=$(VERSION)
# The race detector needs a C compiler.
RACE     := $(if $(shell command -v "$$(go env CC)"),-race,)

LINT_VERSION := v2.15.0
LINT         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/telegraf-hpc/golangci-lint-$(LINT_VERSION)/golangci-lint
# One line for each file of the work tree, committed or not, with its checksum.
SUMS         := git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null

.DEFAULT_GOAL := help
.PHONY: help build run test check lint e2e e2e-slurm e2e-kube e2e-soak previews bench fuzz package clean

help: ## list these targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

build: ## build every program into bin/
	go build -trimpath -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

run: build ## run stock Telegraf with our plugins here and show what they find (Lustre is simulated where there is none)
	@cd e2e && go run ./cmd/demo

test: ## run every test that needs no root: quickly under the race detector, then at full length
	$(if $(RACE),,@echo "make test: no C compiler, so no race detector")
	go test -vet=off -count=1 $(RACE) -short -timeout 5m ./...
	go test -vet=off -count=1 -timeout 5m ./...

check: lint ## run everything that reads the code but does not run it
	go mod verify
	@echo "go generate ./... (must change nothing)"; before="$$($(SUMS))"; go generate ./...; \
	diff <(echo "$$before") <($(SUMS)) || { echo "make check: generated files were out of step; now they are not: commit them"; exit 1; }

lint: $(LINT)
	@unformatted="$$(gofmt -l .)"; [ -z "$$unformatted" ] || { echo "gofmt -w is needed for: $$unformatted"; exit 1; }
	go vet ./...
	cd e2e && go vet -tags soak,slurm_suites,kube_suites,previews ./...
	$(LINT) run ./...
	cd e2e && $(LINT) run --build-tags soak,slurm_suites,kube_suites,previews ./...

$(LINT):
	@mkdir -p $(@D)
	GOFLAGS= GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

e2e: ## run our programs under the stock Telegraf, with real servers (root installs what is missing)
	cd e2e && go test -vet=off -count=1 -timeout 15m ./...

e2e-slurm: ## the tests of Slurm with the Slurm of newer Debian releases, too (in chroots, as root)
	cd e2e && go test -vet=off -tags slurm_suites -run Suites -count=1 -timeout 30m ./harness ./slurm

e2e-kube: ## jupyter_users with a real kube-apiserver (built once, in ten minutes) and a real JupyterHub (as root)
	cd e2e && go test -vet=off -tags kube_suites -run '^Test(Kube|RealHub)' -count=1 -timeout 60m ./jupyter_users

e2e-soak: ## the same for long (SOAKTIME=30m), with kills and reloads at random
	cd e2e && SOAKTIME=$(or $(SOAKTIME),30m) go test -vet=off -tags soak -run Soak -count=1 -timeout 0 -v ./...

previews: ## draw all dashboards to bin/previews (root installs Chromium; npm packages)
	cd e2e && go test -vet=off -tags previews -run TestPreviews -count=1 -timeout 10m -v ./dashboards

bench: ## run every benchmark (COUNT=10 for benchstat), keeping the result in bin/bench.txt
	@mkdir -p bin
	go test -vet=off -run '^$$' -bench . -benchmem -count=$(or $(COUNT),1) -timeout 60m ./... | tee bin/bench.txt

fuzz: ## run every fuzz target for FUZZTIME=10s
	@grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' cmd internal plugins | sed -E 's|/[^/]*:func | |' | \
	while read -r folder target; do echo "== $$folder $$target"; \
	  go test -vet=off -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZTIME),10s) -fuzzminimizetime 10x "./$$folder"; done

package: ## build deb, rpm and tar.gz for amd64 and arm64 into bin/packages
	go run ./packaging -version "$(VERSION)" -epoch "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}"

clean: ## remove what was built
	rm -rf bin
