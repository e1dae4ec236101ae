//! The committed files match their sources.

use bundler::Releases;

use crate::project::{copy, replace, root};

#[test]
fn the_committed_files_are_those_of_their_sources() {
    let files = Releases::read(&root()).unwrap().render(&root()).unwrap();
    let drift = bundler::differences(&root(), &files).unwrap();
    let drift: Vec<_> = drift.into_iter().map(|(path, _)| path).collect();
    assert!(drift.is_empty(), "run make bundle: {drift:?} differ");
}

#[test]
fn writing_brings_everything_up_to_date_and_then_nothing() {
    let copy = copy();
    let render = || Releases::read(copy.path()).unwrap().render(copy.path());
    bundler::write(copy.path(), &render().unwrap()).unwrap();
    let again = bundler::write(copy.path(), &render().unwrap()).unwrap();
    assert!(again.is_empty(), "{again:?}");

    replace(copy.path(), "manifests/deployment.yaml", "10m", "11m");
    let strays = [
        "bundle/manifests/left-over.yaml",
        "charts/windows-storage-operator/templates/left-over.yaml",
    ];
    for stray in strays {
        std::fs::write(copy.path().join(stray), "").unwrap();
    }
    let written = bundler::write(copy.path(), &render().unwrap()).unwrap();
    let changed = [
        strays[0],
        crate::project::CSV,
        strays[1],
        "manifests/install.yaml",
    ];
    assert_eq!(written, changed.map(std::path::PathBuf::from));
    for stray in strays {
        assert!(!copy.path().join(stray).exists());
    }
    let csv = std::fs::read_to_string(copy.path().join(crate::project::CSV)).unwrap();
    assert!(csv.contains("cpu: 11m"));
}

#[test]
fn the_committed_pages_are_those_of_their_sources() {
    for (page, text) in bundler::reference(&root()).unwrap() {
        let committed = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(committed == text, "run make crds: {page} differs");
    }
}
