//! Archives, which are named and not read.

use std::path::Path;

use super::sources::format_of;

/// What archives and compressed files contain, and where.
const CONTENTS: [(usize, &[u8]); 7] = [
    (0, b"\x1f\x8b"),
    (0, b"\xfd7zXZ\0"),
    (4, b"1AY&SY"),
    (0, b"\x28\xb5\x2f\xfd"),
    (0, b"PK\x03\x04"),
    (0, b"PK\x05\x06"),
    // A tar archive begins with the name of a file.
    (257, b"ustar"),
];
/// Endings of a compressed file.
const COMPRESSED: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];
/// Endings of archives of several files.
const ARCHIVES: [&str; 6] = [".tar", ".tgz", ".txz", ".tbz2", ".tzst", ".zip"];
/// Folders into which `oc adm inspect`, and thus a must-gather, puts objects.
const INSPECTED: [&str; 2] = ["cluster-scoped-resources", "namespaces"];

/// How many bytes of a file show whether it is an archive.
pub(super) const BEGINNING: u64 = 512;

/// Whether the beginning of a file shows that it is an archive, or its name where it is empty.
pub(super) fn is_one(name: &str, bytes: &[u8]) -> bool {
    let has = |(at, magic): &(usize, &[u8])| {
        let there = bytes.get(*at..);
        there.is_some_and(|there| there.starts_with(magic))
    };
    CONTENTS.iter().any(has) || bytes.is_empty() && unpacked_name(name).is_some()
}

/// Whether the name of a file in a folder shows an archive that may hold objects and is not unpacked beside itself.
pub(super) fn is_missed(root: &Path, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(unpacked) = name.and_then(unpacked_name) else {
        return false;
    };
    let unpacked = path.with_file_name(unpacked);
    let mut inside = unpacked.read_dir().into_iter().flatten();
    let is_unpacked = unpacked.is_file() || inside.next().is_some();
    !is_unpacked && !is_beside_objects(root, path)
}

/// Returns the name of an archive that may hold objects, without its endings. A compressed log does not.
fn unpacked_name(name: &str) -> Option<&str> {
    let archive = without(name, &ARCHIVES);
    archive.or_else(|| {
        let inner = without(name, &COMPRESSED)?;
        let is_file = format_of(Path::new(inner)).is_some();
        without(inner, &ARCHIVES).or(is_file.then_some(inner))
    })
}

fn without<'a>(name: &'a str, endings: &[&str]) -> Option<&'a str> {
    endings.iter().find_map(|ending| {
        let (rest, end) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
        (end.eq_ignore_ascii_case(ending) && !rest.is_empty()).then_some(rest)
    })
}

/// Whether a must-gather has the archive beside its folders with objects: there are databases of the network, files of nodes,
/// and what another operator has collected, of the same objects.
fn is_beside_objects(root: &Path, path: &Path) -> bool {
    let mut inside = path;
    for folder in path.ancestors().skip(1) {
        if INSPECTED.iter().any(|known| folder.join(known).is_dir()) {
            let name = inside.file_name().and_then(|name| name.to_str());
            return inside != path && !name.is_some_and(|name| INSPECTED.contains(&name));
        }
        if folder == root {
            break;
        }
        inside = folder;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_known_by_its_content_and_an_empty_one_by_its_name() {
        let mut tar = b"a.json".to_vec();
        tar.resize(257, 0);
        tar.extend(b"ustar\x0000");
        for (name, content, expected) in [
            ("pods.yaml", &tar[..], true),
            ("x.json.gz", b"\x1f\x8b\x08\0", true),
            ("b.yaml", b"PK\x03\x04\x14\0", true),
            ("x.xz", b"\xfd7zXZ\0\0\x04", true),
            ("x", b"BZh91AY&SY\x84", true),
            ("x.zst", b"\x28\xb5\x2f\xfd\x04", true),
            // The download was cut off before it began.
            ("MG.TAR.gz", b"", true),
            ("mg.tgz", b"", true),
            ("x.json.gz", b"{}", false),
            ("x.yaml", b"BZh91: a", false),
            ("x.yaml", b"", false),
            ("gz", b"", false),
            (".gz", b"", false),
        ] {
            assert_eq!(is_one(name, content), expected, "{name}");
        }
    }
}
