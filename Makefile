# Every target works on a fresh Debian with Go and Rust, without a terminal. `make help` lists them.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PAYLOAD := target/payload
WINDOWS := x86_64-pc-windows-gnu

# The longest first; what waits for its build, or profits from it, last.
PARTS := kube-apiserver etcd csi-proxy-1.3.0 csi-proxy-1.1.3 csi-client operatorcondition-crd kube-controller-manager kubectl \
	cargo-about go-licenses

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing to build and test: Debian packages, Rust for Windows
	@tools/setup test

.PHONY: setup-image
setup-image: ## Install what is missing to build the image
	@tools/setup image

.PHONY: setup-build
setup-build: ## Install what is missing to build, without what only tests need
	@tools/setup build

.PHONY: parts
parts: setup ## Build the real parts of tests into the cache, once: Kubernetes, etcd, csi-proxy (about 8 min)
	@printf '%s\n' $(PARTS) | xargs -n 1 -P 2 tools/part >/dev/null

.PHONY: build
build: setup-build ## Build the operator and everything else for this machine
	@cargo build --workspace

.PHONY: payload
payload: setup-build ## Build what goes to Windows nodes, csi-proxy and the agent, into target/payload
	@tools/payload $(PAYLOAD)

IMAGE ?=

.PHONY: image
image: setup-image ## Build the container image as target/image/windows-storage-operator.oci.tar; IMAGE=NAME:TAG names it
	@tools/image/build release $(IMAGE)

.PHONY: image-dev
image-dev: setup-image ## The same around the operator that tests have built: seconds, for tests of the image
	@tools/image/build dev >/dev/null

.PHONY: image-check
image-check: setup image ## Check the image of make image, as make test checks the one of make image-dev
	@IMAGE_ARCHIVE=target/image/windows-storage-operator.oci.tar cargo test -p windows-storage-operator --test image

.PHONY: test
test: setup parts payload image-dev ## Run all tests, on the real parts
	@cargo test --workspace

.PHONY: lint
lint: setup-build ## Check format, clippy, documentation, dependencies
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings
	@if [ -d "$$(rustc --print target-libdir --target $(WINDOWS))" ]; then \
		cargo clippy -p windows-storage-agent --all-targets --target $(WINDOWS) -- -D warnings; \
	else \
		echo "clippy of the agent for Windows: skipped, because this Rust has no $(WINDOWS)"; \
	fi
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items
	@deny="$$(tools/part cargo-deny)" && "$$deny" check bans licenses sources

.PHONY: bench
bench: setup-build ## Measure the judgement on a large cluster; JSON goes to target/bench
	@mkdir -p target/bench
	@BENCH_JSON="$(CURDIR)/target/bench/readiness.json" cargo bench -q -p windows-storage-operator --bench readiness

FUZZ_SECONDS ?= 60

.PHONY: fuzz
fuzz: setup-build ## Read mutated input for FUZZ_SECONDS, by default 60; make test does so for some seconds
	@FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test -p windows-storage-operator --test reader -- --nocapture mutation

.PHONY: crds
crds: setup-build ## Write the CRDs from the code to crds/
	@cargo run -q -p windows-storage-operator -- crds --dest-dir crds

# A cluster of one's own, by KUBECONFIG=FILE, needs neither Wine nor a control plane.
.PHONY: run
ifneq ($(KUBECONFIG),)
run: payload build ## Run the operator on a control plane with Windows hosts in a box, or on yours: KUBECONFIG=FILE
	@cargo run -q -p windows-storage-operator -- run --kubeconfig='$(KUBECONFIG)' --payload-dir $(PAYLOAD)
else
run: setup parts payload build
	@cargo run -q -p testbed -- run
endif

.PHONY: demo
demo: setup parts payload build ## Show an upgrade being held, the cause found and removed, the upgrade released
	@cargo run -q -p testbed -- demo

.PHONY: clean
clean: ## Remove what was built in this tree; the cache of parts outside it stays
	@cargo clean
