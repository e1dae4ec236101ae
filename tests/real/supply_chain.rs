//! The shipped programs use a single crypto stack and are built only from pinned dependencies.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testbed::commands::printed;

const LINUX: &str = "x86_64-unknown-linux-gnu";
const WINDOWS: &str = "x86_64-pc-windows-gnu";

/// The operator's crates in the category cryptography, each with its purpose.
const OF_OPERATOR: [(&str, &str); 10] = [
    ("openssl", "the stack: TLS, keys, signatures"),
    ("openssl-sys", "the same, as C has it"),
    ("sha2", "hashes of what is brought to nodes, and of texts"),
    ("block-buffer", "of sha2"),
    ("crypto-common", "of sha2"),
    ("digest", "of sha2"),
    ("pem", "a text format, of kube"),
    (
        "ppv-lite86",
        "of rand, which chooses pauses and places, and no secret",
    ),
    ("secrecy", "of kube: keeps tokens out of logs"),
    ("zeroize", "wipes memory"),
];

/// The agent does not use TLS and holds no keys.
const OF_AGENT: [&str; 4] = ["block-buffer", "crypto-common", "digest", "sha2"];

/// Crypto stacks that must not be linked, whatever their category.
const OTHER_STACKS: &str = "aes aes-gcm aws-lc-rs aws-lc-sys boring boring-sys chacha20poly1305 curve25519-dalek ed25519-dalek graviola mbedtls native-tls \
    p256 ring rsa russh rustls s2n-tls schannel security-framework sha1 wolfssl";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root());
    cargo
}

/// Returns the names of all crates that are linked into a program.
fn linked(package: &str, target: &str) -> BTreeSet<String> {
    let mut cargo = cargo();
    cargo
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--package", package, "--target", target, "--format", "{p}"]);
    let tree = printed(&mut cargo).unwrap();
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Returns the names of all crates of the workspace in the category cryptography.
fn cryptography() -> BTreeSet<String> {
    let mut cargo = cargo();
    let text = printed(cargo.args(["metadata", "--locked", "--format-version", "1"])).unwrap();
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let cryptography = packages.filter(|package| {
        let categories = package["categories"].as_array().unwrap();
        categories.iter().any(|category| category == "cryptography")
    });
    cryptography
        .map(|package| package["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_is_shipped_has_one_crypto_stack() {
    let cryptography = cryptography();
    // Test dependencies do have others, which shows that they would be found.
    assert!(cryptography.contains("ring"), "{cryptography:?}");
    let of = |package, target| -> BTreeSet<String> {
        let linked = linked(package, target);
        for other in OTHER_STACKS.split(' ') {
            assert!(!linked.contains(other), "{package} is linked with {other}");
        }
        linked.intersection(&cryptography).cloned().collect()
    };
    let expected: BTreeSet<String> = OF_OPERATOR.map(|(name, _)| name.to_owned()).into();
    for target in [LINUX, "aarch64-unknown-linux-gnu", WINDOWS] {
        assert_eq!(of("windows-storage-operator", target), expected, "{target}");
    }
    let expected: BTreeSet<String> = OF_AGENT.map(str::to_owned).into();
    assert_eq!(of("windows-storage-agent", WINDOWS), expected);
}

#[test]
fn judgement_reaches_no_client_clock_or_async() {
    let linked = linked("readiness", LINUX);
    assert!(linked.contains("kube-core"), "{linked:?}");
    for name in linked {
        let is_outside = ["async", "futures", "hyper", "openssl", "tokio", "tower"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        assert!(
            !is_outside && !["kube-client", "kube-runtime", "rand", "ssh2"].contains(&&*name),
            "crates/readiness reaches {name}"
        );
    }
    for file in files(&root().join("crates/readiness/src")) {
        let text = fs::read_to_string(&file).unwrap();
        for outside in [
            "::now(",
            "elapsed()",
            "async ",
            "std::env",
            "std::fs",
            "std::net",
        ] {
            assert!(!text.contains(outside), "{}: {outside}", file.display());
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_operator_is_linked_with_one_libcrypto() {
    let program = env!("CARGO_BIN_EXE_windows-storage-operator");
    let libraries = printed(Command::new("ldd").arg(program)).unwrap();
    let names: BTreeSet<&str> = libraries
        .split_whitespace()
        .filter(|word| word.starts_with("lib"))
        .collect();
    for stem in ["libcrypto.so", "libssl.so"] {
        let found: Vec<_> = names.iter().filter(|name| name.starts_with(stem)).collect();
        assert_eq!(found.len(), 1, "{stem}: {names:?}");
    }
    for other in "libgnutls libnss3 libgcrypt libmbed libsodium libnettle libssh2".split(' ') {
        let mut found = names.iter().filter(|name| name.starts_with(other));
        assert_eq!(found.next(), None, "{other}");
    }
}

/// Returns the path of a payload file.
fn payload(name: &str) -> PathBuf {
    let file = root().join("target/payload").join(name);
    assert!(
        file.exists(),
        "{} is not there: make payload",
        file.display()
    );
    file
}

/// Windows shows this information, and application control policies can match it.
#[test]
fn both_programs_say_what_they_are_and_of_which_version() {
    let index = fs::read_to_string(payload("payload.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    for (part, name) in [
        ("csiProxy", "csi-proxy.exe"),
        ("agent", "windows-storage-agent.exe"),
    ] {
        let version = index[part]["version"].as_str().unwrap();
        let program = fs::read(payload(name)).unwrap();
        let has = |text: &str| {
            let units = text.encode_utf16().flat_map(u16::to_le_bytes);
            let bytes: Vec<u8> = units.collect();
            program.windows(bytes.len()).any(|there| there == bytes)
        };
        for (key, value) in [
            ("OriginalFilename", name),
            ("ProductVersion", version),
            ("FileVersion", version),
        ] {
            // Strings are aligned to four bytes.
            let found = ["\0", "\0\0"].map(|pad| has(&format!("{key}{pad}{value}\0")));
            assert!(found.contains(&true), "{name}: {key} is not {value}");
        }
    }
}

#[test]
fn the_agent_asks_windows_for_no_cryptography_but_random_numbers() {
    let agent = payload("windows-storage-agent.exe");
    let libraries = testbed::commands::imported_libraries(&agent).unwrap();
    assert!(libraries.contains("kernel32.dll"), "{libraries:?}");
    for other in "bcrypt.dll ncrypt.dll crypt32.dll secur32.dll schannel.dll libcrypto".split(' ') {
        let mut found = libraries.iter().filter(|it| it.starts_with(other));
        assert_eq!(found.next(), None);
    }
}

/// Returns the files of a folder and its subfolders.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(dir).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.map(walkdir::DirEntry::into_path).collect()
}

#[test]
fn every_go_module_is_built_of_what_its_sums_pin() {
    let tools = files(&root().join("tools"));
    let modules = tools.iter().filter(|file| file.ends_with("go.mod"));
    let modules: Vec<_> = modules.collect();
    assert!(modules.len() > 10, "{modules:?}");
    for module in modules {
        let sums = fs::read_to_string(module.with_file_name("go.sum")).unwrap_or_default();
        assert!(sums.lines().count() > 1, "{}", module.display());
        let text = fs::read_to_string(module).unwrap();
        // A module that is replaced by a local folder has no checksum.
        let is_local = text.contains("=> .") || text.contains("=> /");
        assert!(!is_local, "{}", module.display());
    }
    let sources = ["rs", "go", "sum"].map(std::ffi::OsStr::new);
    let is_script = |file: &&PathBuf| {
        let is_source = file.extension().is_some_and(|end| sources.contains(&end));
        !is_source && fs::read(file).unwrap().starts_with(b"#!")
    };
    let mut scripts: Vec<PathBuf> = tools.iter().filter(is_script).cloned().collect();
    scripts.extend([root().join("Makefile"), root().join(".ci/run")]);
    let weak =
        "-mod=mod -mod=vendor GOSUMDB= GONOSUMDB= GONOSUMCHECK GOINSECURE GOPRIVATE= -insecure";
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        for line in lines {
            let found = weak.split(' ').find(|word| line.contains(word));
            assert_eq!(found, None, "{}: {line}", script.display());
        }
    }
}
