//! The image archive, unpacked with `tar` once for all tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use testbed::cleanup::Guardian;
use testbed::commands::printed;

/// The image for one architecture.
pub struct Image {
    /// The architecture in OCI terms: `amd64` or `arm64`.
    pub architecture: String,
    /// The OCI image configuration.
    pub config: Value,
    /// The root file system that results from the layers.
    pub root: PathBuf,
    /// The layers, each unpacked separately.
    pub layers: Vec<PathBuf>,
    _guardian: Arc<Guardian>,
}

impl Image {
    /// Returns the unpacked images of all architectures.
    pub fn all() -> &'static [Self] {
        static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
        IMAGES.get_or_init(|| Self::unpack(&archive()))
    }

    /// Returns the image for this machine.
    pub fn get() -> &'static Self {
        for_this_machine(Self::all())
    }

    /// Returns the images for `oc adm must-gather`, built beside the operator's.
    pub fn all_must_gather() -> &'static [Self] {
        static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
        let name = "windows-storage-operator-must-gather.oci.tar";
        IMAGES.get_or_init(|| Self::unpack(&archive().with_file_name(name)))
    }

    /// Returns the must-gather image for this machine.
    pub fn must_gather() -> &'static Self {
        for_this_machine(Self::all_must_gather())
    }

    /// Returns the Rust target of its programs.
    pub fn target(&self) -> &'static str {
        match &*self.architecture {
            "amd64" => "x86_64-unknown-linux-gnu",
            _ => "aarch64-unknown-linux-gnu",
        }
    }

    fn unpack(archive: &Path) -> Vec<Self> {
        assert!(
            archive.exists(),
            "{} is not there: make image-dev",
            archive.display()
        );
        let guardian = Arc::new(Guardian::temp("image").unwrap());
        let archived = guardian.dir().join("archive");
        untar(archive, &archived);
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let hash = digest.strip_prefix("sha256:").unwrap();
            let path = archived.join("blobs/sha256").join(hash);
            assert_eq!(sha256(&path), hash, "{}", path.display());
            path
        };
        let index = json(&archived.join("index.json"));
        let [index] = index["manifests"].as_array().unwrap().as_slice() else {
            panic!("not one index: {index}");
        };
        let index = json(&blob(index));
        let manifests = index["manifests"].as_array().unwrap().iter();
        let images = manifests.map(|descriptor| {
            let platform = &descriptor["platform"];
            assert_eq!(platform["os"], "linux");
            let architecture = platform["architecture"].as_str().unwrap().to_owned();
            let manifest = json(&blob(descriptor));
            let config = json(&blob(&manifest["config"]));
            assert_eq!(config["architecture"], architecture.as_str());
            let dir = guardian.dir().join(&architecture);
            let root = dir.join("root");
            let mut layers = Vec::new();
            for (number, layer) in manifest["layers"].as_array().unwrap().iter().enumerate() {
                let blob = blob(layer);
                layers.push(dir.join(format!("layer-{number}")));
                untar(&blob, &layers[number]);
                untar(&blob, &root);
            }
            Self {
                architecture,
                config,
                root,
                layers,
                _guardian: Arc::clone(&guardian),
            }
        });
        images.collect()
    }

    /// Returns the path of a file in the unpacked image; symbolic links resolve as in a container.
    pub fn path(&self, path: &str) -> PathBuf {
        let mut real = self.root.clone();
        for part in Path::new(path.trim_start_matches('/')) {
            real.push(part);
            if let Ok(target) = fs::read_link(&real) {
                real.pop();
                match target.strip_prefix("/") {
                    Ok(absolute) => real = self.root.join(absolute),
                    Err(_) => real.push(target),
                }
            }
        }
        real
    }

    /// Reads a file as text.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Reads a file as JSON.
    pub fn json(&self, path: &str) -> Value {
        json(&self.path(path))
    }

    /// Returns whether it has the operator of `make image`, not a test build.
    pub fn is_release(&self) -> bool {
        let profile = &self.config["config"]["Labels"]["windowsstorage.dev/cargo-profile"];
        assert!(profile == "release" || profile == "dev", "{profile}");
        profile == "release"
    }
}

fn for_this_machine(images: &'static [Image]) -> &'static Image {
    let mut images = images.iter();
    images
        .find(|image| image.target().starts_with(std::env::consts::ARCH))
        .unwrap()
}

/// Returns the path of the archive under test.
fn archive() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("IMAGE_ARCHIVE").map_or_else(
        || project.join("target/image/dev/windows-storage-operator.oci.tar"),
        |path| project.join(path),
    )
}

/// Returns everything below a directory, without the directory itself, as paths relative to it.
pub fn walk(dir: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let entries = walkdir::WalkDir::new(dir).min_depth(1).into_iter();
    let entries = entries.map(Result::unwrap).map(|entry| {
        let path = entry.path().strip_prefix(dir).unwrap().to_owned();
        (path, entry.metadata().unwrap())
    });
    entries.collect()
}

/// Returns the SHA-256 of a file in hexadecimal.
pub fn sha256(path: &Path) -> String {
    printed(Command::new("sha256sum").arg(path)).unwrap()[..64].to_owned()
}

fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Unpacks an archive with its modes, and as root also with its owners.
fn untar(archive: &Path, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--preserve-permissions", "--numeric-owner"])
        .args(["--file".as_ref(), archive, "--directory".as_ref(), dir]);
    printed(&mut tar).unwrap();
}
