//! Archives, which are named and not read.

use std::path::Path;

use super::error::Problem;
use super::names::format_of;

const TAR: &str = "tar -xf";
const ZIP: &str = "unzip";
/// Endings of archives, where their content shows what they are, and what unpacks them. A tar archive begins with the name of
/// a file.
const FORMS: [(&str, usize, &[u8], &str); 7] = [
    (".tar", 257, b"ustar", TAR),
    (".zip", 0, b"PK\x03\x04", ZIP),
    (".zip", 0, b"PK\x05\x06", ZIP),
    (".gz", 0, b"\x1f\x8b", "gunzip"),
    (".xz", 0, b"\xfd7zXZ\0", "unxz"),
    (".bz2", 4, b"1AY&SY", "bunzip2"),
    (".zst", 0, b"\x28\xb5\x2f\xfd", "unzstd"),
];
/// Endings of tar archives that are compressed.
const TARS: [&str; 4] = [".tgz", ".txz", ".tbz2", ".tzst"];
/// Folders into which `oc adm inspect`, and thus a must-gather, puts objects.
const INSPECTED: [&str; 2] = ["cluster-scoped-resources", "namespaces"];

/// How many bytes of a file show whether it is an archive.
pub(super) const BEGINNING: u64 = 512;

/// Returns what unpacks a file of this name, and the name without its endings.
fn of_name(name: &str) -> Option<(&'static str, &str)> {
    let without = |name: &str, ending: &str| {
        let length = name.len().checked_sub(ending.len())?;
        let is_it = name.get(length..)?.eq_ignore_ascii_case(ending);
        (is_it && length > 0).then_some(length)
    };
    if let Some(length) = TARS.iter().find_map(|ending| without(name, ending)) {
        return Some((TAR, &name[..length]));
    }
    let mut forms = FORMS.iter();
    let (length, program) =
        forms.find_map(|(ending, .., program)| Some((without(name, ending)?, *program)))?;
    Some(match without(&name[..length], ".tar") {
        Some(length) => (TAR, &name[..length]),
        None => (program, &name[..length]),
    })
}

/// Returns the problem with a file whose beginning shows that it is an archive, or whose name does where it is empty.
pub(super) fn of_content(name: &str, bytes: &[u8]) -> Option<Problem> {
    let named = of_name(name).map(|(program, _)| program);
    let is_of = |at: usize, magic| bytes.get(at..).is_some_and(|it| it.starts_with(magic));
    let mut forms = FORMS.iter();
    let shown = forms.find(|(_, at, magic, _)| is_of(*at, magic));
    let program = match shown {
        Some((.., program)) if *program != ZIP && named == Some(TAR) => TAR,
        Some((.., program)) => program,
        None => named.filter(|_| bytes.is_empty())?,
    };
    Some(Problem::Archive(program))
}

/// Returns the problem with a file in a folder whose name shows an archive that may hold objects and is not unpacked beside
/// itself. A compressed log does not.
pub(super) fn in_folder(root: &Path, path: &Path) -> Option<Problem> {
    let name = path.file_name()?.to_str()?;
    let (program, rest) = of_name(name)?;
    let may_hold_objects = [TAR, ZIP].contains(&program) || format_of(Path::new(rest)).is_some();
    let unpacked = path.with_file_name(rest);
    let mut inside = unpacked.read_dir().into_iter().flatten();
    let is_unpacked = unpacked.is_file() || inside.next().is_some();
    if !may_hold_objects || is_unpacked || is_beside_objects(root, path) {
        return None;
    }
    Some(Problem::Archive(program))
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

    fn told(name: &str, content: &[u8]) -> Option<&'static str> {
        match of_content(name, content)? {
            Problem::Archive(program) => Some(program),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_archive_is_known_by_its_content_and_comes_with_what_unpacks_it() {
        let mut tar = b"a.json".to_vec();
        tar.resize(257, 0);
        tar.extend(b"ustar\x0000");
        let (gzip, zip) = (b"\x1f\x8b\x08\0", b"PK\x03\x04\x14\0");
        for (name, content, program) in [
            ("a/mg.tar", &tar[..], TAR),
            ("pods.yaml", &tar, TAR),
            ("mg.tar.gz", gzip, TAR),
            ("MG.TGZ", gzip, TAR),
            ("x.json.gz", gzip, "gunzip"),
            ("x.json", gzip, "gunzip"),
            ("standard input", gzip, "gunzip"),
            ("b.zip", zip, ZIP),
            ("x.tgz", zip, ZIP),
            ("b.yaml", zip, ZIP),
            ("x.xz", b"\xfd7zXZ\0\0\x04", "unxz"),
            ("x.bz2", b"BZh91AY&SY\x84", "bunzip2"),
            ("x.zst", b"\x28\xb5\x2f\xfd\x04", "unzstd"),
            // The download was cut off before it began.
            ("mg.tar.gz", b"", TAR),
        ] {
            assert_eq!(told(name, content), Some(program), "{name}");
        }
    }

    #[test]
    fn what_is_text_is_read_whatever_its_name_says() {
        for (name, content) in [
            ("x.json.gz", &b"{}"[..]),
            ("x.yaml", b"BZh91: a"),
            ("x.yaml", b""),
            ("gz", b""),
            (".gz", b""),
        ] {
            assert_eq!(told(name, content), None, "{name}");
        }
    }
}
