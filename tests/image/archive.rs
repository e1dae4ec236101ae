//! The archive, taken apart by `tar` as any tool would, once for all tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use testbed::cleanup::Guardian;

/// The image of the archive.
pub struct Image {
    /// The OCI image configuration.
    pub config: Value,
    /// The root file system that the layers make.
    pub root: PathBuf,
    /// The layers, each unpacked by itself.
    pub layers: Vec<PathBuf>,
    _guardian: Guardian,
}

impl Image {
    /// The image, unpacked.
    pub fn get() -> &'static Self {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        IMAGE.get_or_init(|| Self::unpack(&archive()))
    }

    /// The image for `oc adm must-gather`, built beside it.
    pub fn must_gather() -> &'static Self {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        let name = "windows-storage-operator-must-gather.oci.tar";
        IMAGE.get_or_init(|| Self::unpack(&archive().with_file_name(name)))
    }

    fn unpack(archive: &Path) -> Self {
        assert!(
            archive.exists(),
            "{} is not there: make image-dev",
            archive.display()
        );
        let guardian = Guardian::temp("image").unwrap();
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
        let [manifest] = index["manifests"].as_array().unwrap().as_slice() else {
            panic!("not one manifest: {index}");
        };
        let manifest = json(&blob(manifest));
        let root = guardian.dir().join("root");
        let mut layers = Vec::new();
        for (number, layer) in manifest["layers"].as_array().unwrap().iter().enumerate() {
            let blob = blob(layer);
            layers.push(guardian.dir().join(format!("layer-{number}")));
            untar(&blob, &layers[number]);
            untar(&blob, &root);
        }
        Self {
            config: json(&blob(&manifest["config"])),
            root,
            layers,
            _guardian: guardian,
        }
    }

    /// A file's path in the unpacked image; symbolic links lead to where they would in a container.
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

    /// A file as text.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A file as JSON.
    pub fn json(&self, path: &str) -> Value {
        json(&self.path(path))
    }

    /// Whether it has the operator of `make image`, not the one that tests have built.
    pub fn is_release(&self) -> bool {
        match &self.config["config"]["Labels"]["windowsstorage.dev/cargo-profile"] {
            profile if profile == "release" => true,
            profile if profile == "dev" => false,
            profile => panic!("{profile} is no profile"),
        }
    }
}

/// The archive that is checked.
fn archive() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("IMAGE_ARCHIVE").map_or_else(
        || project.join("target/image/dev/windows-storage-operator.oci.tar"),
        |path| project.join(path),
    )
}

/// All that is below a directory, which is not itself in it, as paths relative to it.
pub fn walk(dir: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    walkdir::WalkDir::new(dir)
        .min_depth(1)
        .into_iter()
        .map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().strip_prefix(dir).unwrap().to_owned();
            (path, entry.metadata().unwrap())
        })
        .collect()
}

/// The SHA-256 of a file in hexadecimal.
pub fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    assert!(output.status.success(), "sha256sum {}", path.display());
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Unpacks with modes, and as root with owners, as they are in the archive.
fn untar(archive: &Path, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let status = Command::new("tar")
        .args(["--extract", "--preserve-permissions", "--numeric-owner"])
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(dir)
        .status()
        .unwrap();
    assert!(status.success(), "tar of {}: {status}", archive.display());
}
