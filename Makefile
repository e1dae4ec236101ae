# Every target works on a fresh Debian with Go and Rust, without a terminal. `make help` lists the targets.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PAYLOAD := target/payload
WINDOWS := x86_64-pc-windows-gnu

# There is no published image, so the default is the local build. To use your own, push it and pass IMAGE=NAME:TAG to make.
# Environment variables of these names are ignored.
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
IMAGE := localhost/windows-storage-operator:$(VERSION)
MUST_GATHER_IMAGE := localhost/windows-storage-operator-must-gather:$(VERSION)
# URL of the source, for the bundle.
REPOSITORY :=
# The last OpenShift minor version to which a cluster with this version of the operator may be upgraded, such as 4.21.
MAX_OPENSHIFT_VERSION :=
# Versions from which OLM may upgrade directly to a new release; see docs/contributing/releasing.md.
SKIP_RANGE :=
# By default, the image for oc adm must-gather is next to the operator's.
PUBLISHED = --image '$(IMAGE)' --must-gather-image '$(if $(filter command,$(origin MUST_GATHER_IMAGE)),$(MUST_GATHER_IMAGE))' \
	--max-openshift-version '$(MAX_OPENSHIFT_VERSION)' --repository '$(REPOSITORY)'

# What each kind of target needs beside Rust and Go: groups of tools/setup, and parts of tools/part, the longest builds first.
OLM := 1
PACKAGES_build := build
PACKAGES_run := build run
PACKAGES_test := build run test
PACKAGES_image := build image
PACKAGES_release := build image release
PACKAGES_nightly := build run test image release fuzz
PACKAGES_fuzz := build fuzz
PACKAGES_coverage := build coverage
PARTS_run := kube-apiserver $(if $(filter 0,$(OLM)),,olm olm-crds) csi-proxy-1.3.0 etcd operatorcondition-crd kubectl
PARTS_demo := $(PARTS_run) csi-client
PARTS_test := $(PARTS_demo) kube-controller-manager csi-proxy-1.1.3 helm bundle-check gitops-check actionlint
PARTS_image := kube-apiserver etcd kubectl operatorcondition-crd sbom-check cyclonedx-schemas
PARTS_release := $(PARTS_test) sbom-check cyclonedx-schemas opm krew

# Programs as cargo builds them for tests.
BIN := $(or $(CARGO_TARGET_DIR),target)/debug

##@ Set up and build

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-17s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: setup-test ## Install what is missing to build and test: Debian packages, Rust for Windows

.PHONY: parts
parts: parts-test ## Build the real parts of tests into the cache, once (about 15 min)

.PHONY: setup-build
setup-build: ## Install what is missing to build, without what only tests need
	@tools/setup $(PACKAGES_build)

setup-%:
	@tools/setup $(PACKAGES_$*)

parts-%:
	@tools/part --all $(PARTS_$*)

.PHONY: build
build: setup-build ## Build the operator and everything else for this machine
	@cargo build

.PHONY: test-programs
test-programs: setup-build ## Build the Windows programs that tests of the agent install
	@tools/test-programs >/dev/null

.PHONY: payload
payload: setup-build ## Build what goes to Windows nodes, csi-proxy and the agent, into target/payload
	@tools/payload $(PAYLOAD)

.PHONY: cli
cli: setup-release ## Build the command line for Linux and Windows into target/cli
	@tools/cli

##@ Images and plugin

.PHONY: plugin
plugin: setup-image ## Pack the kubectl plugin for this platform, with its krew manifest; REPOSITORY
	@REPOSITORY='$(REPOSITORY)' tools/plugin release

# Architectures of the images.
PLATFORMS := amd64 arm64

.PHONY: image
image: setup-release ## Build the image as an OCI archive in target/image; IMAGE, PLATFORMS
	@PLATFORMS='$(PLATFORMS)' tools/image/build release $(IMAGE)

.PHONY: image-must-gather
image-must-gather: setup-release ## Build the image for oc adm must-gather; MUST_GATHER_IMAGE=NAME:TAG
	@PLATFORMS='$(PLATFORMS)' tools/image/must-gather release $(MUST_GATHER_IMAGE) $(IMAGE)

.PHONY: image-dev
image-dev: setup-image ## Build both images around the operator of the tests, in seconds
	@tools/image/must-gather dev >/dev/null

.PHONY: image-check
image-check: image image-must-gather ## Test the images of make image as make test-image does those of make image-dev
	@IMAGE_ARCHIVE=target/image/windows-storage-operator.oci.tar cargo test --test image

##@ Test and check

# Most tests wait for programs, deadlines and watches. So many keep two cores busy; more take as long.
TEST_THREADS := 10
# API servers and kubectl are started often, and live briefly: they collect garbage only at this limit of memory, and one
# thread each takes the fewest processor seconds.
# No test trusts the system's authorities, and OpenSSL reads all of them for each client.
TEST = GOGC=off GOMEMLIMIT=600MiB GOMAXPROCS=1 RUST_TEST_THREADS=$(TEST_THREADS) SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null

# The whole system is tested beside all else, because each alone often waits. Cargo builds before: downloads
# need authorities.
.PHONY: test
test: setup-test parts-test payload test-programs ## Test the operator, agent, docs and manifests on real parts; TEST_THREADS=N at one time
	@cargo test --no-run; cargo test --no-run --test real
	@# What runs in the background ignores Ctrl-C unless told otherwise, and so does all that it starts.
	@$(TEST) env --default-signal=INT,QUIT cargo test --no-fail-fast & others=$$!; failed=''; \
	$(TEST) cargo test --test real || failed+=' real'; \
	wait "$$others" || failed+=' others'; \
	[ -z "$$failed" ] || { echo "failed:$$failed; their 'failures:' are above" >&2; exit 1; }

.PHONY: test-image
test-image: setup-run image-dev parts-image ## Test the images
	@cargo test --test image

.PHONY: test-release
test-release: setup-nightly image-dev parts-release payload ## Test what a release consists of: programs for other platforms, plugin, files
	@cargo clippy -p windows-storage-operator --bins --target $(WINDOWS) -- -D warnings
	@OPERATOR_LINUX_ARM64="$$(tools/build-operator --dev --for linux/arm64)" \
		OPERATOR_WINDOWS_AMD64="$$(tools/build-operator --dev --for windows/amd64)" \
		cargo test --test platforms --test release
	@cargo test --test real -- --ignored plugin::krew::

# The API server versions to test besides the newest, and the tests to run on each.
VERSIONS := 1.24 1.28 1.30
CORE := versions main_job gate check replacement external removal without_olm policies

.PHONY: test-versions
test-versions: setup-test parts-test payload ## Run the core of the system tests on older API servers; VERSIONS="1.24 1.28"
	@cargo test --no-run --test real
	@for version in $(VERSIONS); do \
		echo "Kubernetes $$version"; \
		tools/part "kube-apiserver-$$version" >/dev/null; \
		TEST_KUBERNETES=$$version $(TEST) cargo test --test real -- $(CORE:%=cluster::%::); \
	done

# The API server versions on which upgrades of the operator are tested.
UPGRADES := newest 1.24

.PHONY: test-upgrade
test-upgrade: setup-test parts-test payload ## Upgrade from the version before and back; UPGRADES="newest 1.24"
	@tools/before >/dev/null
	@cargo test --no-run --test real
	@for version in $(UPGRADES); do \
		echo "Kubernetes $$version"; \
		[ "$$version" = newest ] && unset TEST_KUBERNETES || export TEST_KUBERNETES="$$version"; \
		tools/part kube-apiserver$${TEST_KUBERNETES:+-$$TEST_KUBERNETES} >/dev/null; \
		$(TEST) cargo test --test real -- --ignored cluster::upgrade::; \
	done

.PHONY: test-native
test-native: setup-test parts-test payload ## Test the agent's tests as a Windows program, under Wine
	@tools/test-programs target/native-tests native >/dev/null
	@cargo test --test node -- --ignored natively::

.PHONY: test-random
test-random: setup-build ## Compare the judgement with its oracle on 20,000 random clusters; SEED
	@CLUSTERS=20000 SEED="$${SEED:-$$(date +%s)}" cargo test --test readiness -- --include-ignored oracle random

# Each is run, and all that failed are named at the end.
NIGHTLY := test test-image test-release test-versions test-upgrade test-native test-random guarded chaos fuzz audit
.PHONY: nightly
nightly: setup-nightly ## Run everything, in hours: other versions and platforms, chaos, fuzzing, the audit
	@failed=''; \
	for each in $(NIGHTLY); do \
		echo "== make $$each, $$(date -u +%H:%M:%S)"; \
		$(MAKE) "$$each" || failed+=" $$each"; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: e2e-olm
e2e-olm: setup-test parts-test payload ## Install and upgrade the operator by the real OLM, a part of make test
	@cargo test --test real olm::

.PHONY: docs-check
docs-check: setup-test parts-test payload ## Run the commands of the documentation, a part of make test
	@RUST_TEST_THREADS=$(TEST_THREADS) cargo test --test real docs::

.PHONY: lint
lint: setup-build ## Check format, clippy, documentation, workflows, dependencies
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings
	@cargo clippy --test real --test image --test platforms --test release -- -D warnings
	@if [ -d "$$(rustc --print target-libdir --target $(WINDOWS))" ]; then \
		cargo clippy -p windows-storage-agent --all-targets --target $(WINDOWS) -- -D warnings && \
		cargo clippy -p windows-storage-agent --all-targets --all-features --target $(WINDOWS) -- -D warnings; \
	else \
		echo "clippy for Windows: skipped, because this Rust has no $(WINDOWS)"; \
	fi
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items
	@actionlint="$$(tools/part actionlint)" && "$$actionlint" .github/workflows/*.yaml
	@deny="$$(tools/part cargo-deny)" && "$$deny" check bans licenses sources

MEASUREMENTS :=

##@ Measure

.PHONY: bench
bench: setup-test parts-test payload ## Measure memory, times, a fleet and copies; MEASUREMENTS="NAME NAME"
	@cargo build --release -p windows-storage-operator -p bench
	@target/release/bench $(MEASUREMENTS)

.PHONY: bench-readiness
bench-readiness: setup-build ## Measure the judgement alone on a large cluster, and compare with the last time
	@cargo bench -q -p bench --bench readiness

FUZZ_SECONDS ?= 60
FUZZ_SEED ?=
TARGETS :=

##@ Check in depth

.PHONY: fuzz
fuzz: setup-fuzz ## Look for inputs that break a parser; FUZZ_SECONDS=60, TARGETS="NAME NAME"
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) tools/fuzz $(TARGETS)

# These tests need the agent for nodes, or two agents at the same time.
NOT_GUARDED := --skip the_agent_for_nodes_is_built_without_it --skip the_agent_loads_no_library --skip replace_agent

.PHONY: guarded
guarded: setup-test parts-test payload test-programs ## Test the agent on Wine with a heap that guards each block (about 3 min)
	@GUARDED_AGENT=1 RUST_TEST_THREADS=$(TEST_THREADS) cargo test --test node -- $(NOT_GUARDED)

.PHONY: sbom
sbom: setup-image payload ## Write the SBOM of the three programs, CycloneDX, to target/sbom, and check it
	@tools/sbom

.PHONY: audit
audit: setup-test payload ## Check the supply chain, build all that is shipped twice (about 15 min)
	@tools/audit

.PHONY: audit-quick
audit-quick: setup-test payload ## Do the same without building the operator twice
	@tools/audit quick

CHAOS_GROUPS :=

.PHONY: chaos
chaos: setup-test parts-test payload test-programs ## Run the tests of faults in full, the operator killed 200 times
	@tools/chaos $(CHAOS_GROUPS)

.PHONY: mutants
mutants: setup-build ## Change the judgement and see tests fail; MUTANTS_SECONDS=N, MUTANTS_SINCE=REV
	@MUTANTS_SECONDS='$(MUTANTS_SECONDS)' MUTANTS_SINCE='$(MUTANTS_SINCE)' tools/mutants

.PHONY: coverage
coverage: setup-coverage ## Show which lines the quick tests run; pages go to target/coverage/html
	@tools/coverage

.PHONY: coverage-full
coverage-full: setup-test setup-coverage parts-test payload ## Do the same with the whole-system tests
	@tools/coverage full

##@ Generate and release

.PHONY: crds
crds: setup-build ## Write the CRDs from the code to crds/, and the generated pages of docs/
	@cargo run -q -p windows-storage-operator -- crds --dest-dir crds
	@cargo run -q -p bundler -- reference

.PHONY: bundle
bundle: setup-build ## Write the OLM bundle, the Helm chart and install.yaml; IMAGE and others
	@cargo run -q -p bundler -- bundle $(PUBLISHED)

.PHONY: screenshot
screenshot: setup-test ## Write docs/report.png, the picture of the report in the README
	@tools/screenshot docs/report.png

.PHONY: release-bundle
release-bundle: setup-build ## Change the tree to release VERSION=x.y.z and list what changed
	@$(if $(filter command,$(origin VERSION)),,echo 'make release-bundle needs VERSION=x.y.z' >&2; exit 2)
	@cargo run -q -p bundler -- release '$(VERSION)' --skip-range '$(SKIP_RANGE)' $(PUBLISHED)

.PHONY: chart
chart: setup-build ## Pack the Helm chart that make bundle has written into target/chart
	@helm="$$(tools/part helm)" && "$$helm" lint --strict --quiet charts/* && "$$helm" package charts/* --destination target/chart

# Registry to push a release's images to, such as ghcr.io/OWNER.
REGISTRY := localhost

.PHONY: release
release: setup-release ## Make all files of release VERSION=x.y.z, pushing nothing; REGISTRY, REPOSITORY
	@$(if $(filter command,$(origin VERSION)),,echo 'make release needs VERSION=x.y.z' >&2; exit 2)
	@REGISTRY='$(REGISTRY)' REPOSITORY='$(REPOSITORY)' tools/release '$(VERSION)'

.PHONY: bundle-check
bundle-check: setup-build ## Run the validators of operator-framework over bundle/; any finding is a failure
	@check="$$(tools/part bundle-check)" && "$$check" bundle

.PHONY: catalog-check
catalog-check: setup-build ## Validate the catalog with opm, with bundle/ as its newest bundle
	@tools/catalog-check target/catalog

# With KUBECONFIG=FILE, it uses an existing cluster, and needs neither Wine nor a control plane. Only the command line counts,
# because a KUBECONFIG in the environment may have been forgotten.
##@ Try

.PHONY: run
ifeq ($(origin KUBECONFIG),command line)
run: payload
	@cargo build --bin windows-storage-operator
	@KUBECONFIG='$(KUBECONFIG)' $(BIN)/windows-storage-operator run --payload-dir $(PAYLOAD)
else
run: local ## Run the operator on a control plane of its own (OLM=0: without OLM), or KUBECONFIG=FILE
	@OLM='$(OLM)' $(BIN)/testbed run
endif

.PHONY: local
local: setup-run parts-run payload
	@cargo build --bin windows-storage-operator --bin testbed

.PHONY: demo
demo: local parts-demo ## Show an upgrade being held, the cause found and removed, the upgrade released
	@$(BIN)/testbed demo

.PHONY: clean
clean: ## Remove what was built in this tree; the cache of parts outside it stays
	@cargo clean
