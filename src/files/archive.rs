//! Archives, which are named and not read.

use std::path::Path;

use super::error::Problem;
use super::names::{STANDARD_INPUT, format_of, name_of};
use crate::assess::report::shell_word;

/// Endings of compressed files, where their content shows what they are, and what unpacks them.
const COMPRESSED: [(&str, usize, &[u8], &str); 4] = [
    (".gz", 0, b"\x1f\x8b", "gunzip"),
    (".xz", 0, b"\xfd7zXZ\0", "unxz"),
    (".bz2", 4, b"1AY&SY", "bunzip2"),
    (".zst", 0, b"\x28\xb5\x2f\xfd", "unzstd"),
];
const TARS: [&str; 5] = [".tar", ".tgz", ".txz", ".tbz2", ".tzst"];
const ZIP: &str = ".zip";
/// Folders into which `oc adm inspect`, and thus a must-gather, puts objects.
const INSPECTED: [&str; 2] = ["cluster-scoped-resources", "namespaces"];

/// How many bytes of a file show whether it is an archive.
pub(super) const BEGINNING: u64 = 512;

/// What unpacks an archive.
#[derive(Clone, Copy)]
enum Form {
    Tar,
    Zip,
    /// A program that writes the only file in it.
    One(&'static str),
}

impl Form {
    fn of_content(bytes: &[u8]) -> Option<Self> {
        let has = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|it| it.starts_with(magic));
        // A tar archive begins with the name of a file.
        if has(257, b"ustar") {
            return Some(Self::Tar);
        }
        if has(0, b"PK\x03\x04") || has(0, b"PK\x05\x06") {
            return Some(Self::Zip);
        }
        let mut compressed = COMPRESSED.iter();
        let found = compressed.find(|(_, at, magic, _)| has(*at, magic))?;
        Some(Self::One(found.3))
    }

    /// Returns the form that a name shows, and the name without its endings.
    fn of_name(name: &str) -> Option<(Self, &str)> {
        let without = |name: &'_ str, ending: &str| {
            let length = name.len().checked_sub(ending.len())?;
            let is_it = name.get(length..)?.eq_ignore_ascii_case(ending);
            (is_it && length > 0).then_some(length)
        };
        let tar = |name: &str| TARS.iter().find_map(|ending| without(name, ending));
        if let Some(length) = without(name, ZIP) {
            return Some((Self::Zip, &name[..length]));
        }
        if let Some(length) = tar(name) {
            return Some((Self::Tar, &name[..length]));
        }
        COMPRESSED.iter().find_map(|(ending, .., program)| {
            let name = &name[..without(name, ending)?];
            Some(match tar(name) {
                Some(length) => (Self::Tar, &name[..length]),
                None => (Self::One(program), name),
            })
        })
    }
}

/// Returns the problem with a file whose beginning shows that it is an archive, or whose name does where it is empty.
pub(super) fn of_content(name: &str, bytes: &[u8]) -> Option<Problem> {
    let named = Form::of_name(name);
    let form = match (Form::of_content(bytes), named) {
        (Some(Form::One(_)), Some((Form::Tar, _))) => Form::Tar,
        (Some(form), _) => form,
        (None, Some((form, _))) if bytes.is_empty() => form,
        (None, _) => return None,
    };
    Some(problem(name, form, named.map(|(_, rest)| rest)))
}

/// Returns the problem with a file in a folder whose name shows an archive that may hold objects and is not unpacked beside
/// itself. A compressed log does not.
pub(super) fn in_folder(root: &Path, path: &Path) -> Option<Problem> {
    let name = path.file_name()?.to_str()?;
    let (form, rest) = Form::of_name(name)?;
    let may_hold_objects = match form {
        Form::Tar | Form::Zip => true,
        Form::One(_) => format_of(Path::new(rest)).is_some(),
    };
    let unpacked = path.with_file_name(rest);
    let mut inside = unpacked.read_dir().into_iter().flatten();
    let is_unpacked = unpacked.is_file() || inside.next().is_some();
    if !may_hold_objects || is_unpacked || is_beside_objects(root, path) {
        return None;
    }
    let name = name_of(path);
    let rest = Form::of_name(&name).map(|(_, rest)| rest);
    Some(problem(&name, form, rest))
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

fn problem(name: &str, form: Form, rest: Option<&str>) -> Problem {
    if name == STANDARD_INPUT {
        return Problem::Archive("unpack it before".to_owned());
    }
    let to = shell_word(&rest.map_or_else(|| format!("{name}.unpacked"), str::to_owned));
    let name = shell_word(name);
    let command = match form {
        Form::Tar => format!("mkdir {to} && tar -xf {name} -C {to}"),
        Form::Zip => format!("unzip {name} -d {to}"),
        Form::One(program) => format!("{program} -c {name} > {to}"),
    };
    Problem::Archive(format!("unpack it, and give what was in it: {command}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, content: &[u8]) -> Option<String> {
        let problem = of_content(name, content)?.to_string();
        let command = problem.split_once("was in it: ");
        Some(command.map_or(&*problem, |(_, command)| command).to_owned())
    }

    #[test]
    fn an_archive_is_known_by_its_content_and_comes_with_its_command() {
        let mut tar = b"a.json".to_vec();
        tar.resize(257, 0);
        tar.extend(b"ustar\x0000");
        let (gzip, zip) = (b"\x1f\x8b\x08\0", b"PK\x03\x04\x14\0");
        for (name, content, command) in [
            (
                "a/mg.tar",
                &tar[..],
                "mkdir a/mg && tar -xf a/mg.tar -C a/mg",
            ),
            ("mg.tar.gz", gzip, "mkdir mg && tar -xf mg.tar.gz -C mg"),
            ("MG.TGZ", gzip, "mkdir MG && tar -xf MG.TGZ -C MG"),
            ("x.json.gz", gzip, "gunzip -c x.json.gz > x.json"),
            ("x.json", gzip, "gunzip -c x.json > x.json.unpacked"),
            ("b.zip", zip, "unzip b.zip -d b"),
            ("b.yaml", zip, "unzip b.yaml -d b.yaml.unpacked"),
            (
                "pods.yaml",
                &tar,
                "mkdir pods.yaml.unpacked && tar -xf pods.yaml -C pods.yaml.unpacked",
            ),
            ("it's 1.zip", zip, r"unzip 'it'\''s 1.zip' -d 'it'\''s 1'"),
            ("x.xz", b"\xfd7zXZ\0\0\x04", "unxz -c x.xz > x"),
            ("x.bz2", b"BZh91AY&SY\x84", "bunzip2 -c x.bz2 > x"),
            ("x.zst", b"\x28\xb5\x2f\xfd\x04", "unzstd -c x.zst > x"),
            // The download was cut off before it began.
            ("mg.tar.gz", b"", "mkdir mg && tar -xf mg.tar.gz -C mg"),
        ] {
            assert_eq!(told(name, content).as_deref(), Some(command), "{name}");
        }
        let input = told(STANDARD_INPUT, gzip).unwrap();
        assert!(input.ends_with("unpack it before"), "{input}");
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
