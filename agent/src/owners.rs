//! Decides which accounts may write the files that SYSTEM writes and runs.
//!
//! Every account may create folders in `C:\`. An account that created `C:\k` before the agent was installed owns it, and can
//! remove and replace its content regardless of the files' access control lists. The permissions that folders inherit from
//! `C:\` let other accounts write in them as well.

/// `NT SERVICE\TrustedInstaller`.
const TRUSTED_INSTALLER: &str = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";
const SYSTEM: &str = "S-1-5-18";
/// The group of accounts that can do whatever SYSTEM can. Its members' files belong to the group.
const ADMINISTRATORS: &str = "S-1-5-32-544";
/// The group that contains every account.
pub const EVERYONE: &str = "S-1-1-0";
/// Placeholders for the owner, who is judged separately.
const OWNERS: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

const WRITE_DATA: u32 = 0x2;
const APPEND_DATA: u32 = 0x4;
const WRITE_ATTRIBUTES: u32 = 0x10 | 0x100;
const DELETE_CHILD: u32 = 0x40;
const DELETE: u32 = 0x1_0000;
const WRITE_DAC: u32 = 0x4_0000;
const WRITE_OWNER: u32 = 0x8_0000;
const GENERIC_ALL: u32 = 0x1000_0000;
const GENERIC_EXECUTE: u32 = 0x2000_0000;
const GENERIC_WRITE: u32 = 0x4000_0000;
const GENERIC_READ: u32 = 0x8000_0000;
/// All rights.
pub const ALL: u32 = GENERIC_ALL;

/// The rights to replace the object.
const REPLACE: u32 = DELETE | DELETE_CHILD | WRITE_DAC | WRITE_OWNER | GENERIC_ALL | GENERIC_WRITE;
/// The rights to replace the object or to add something beside it.
const ADD: u32 = REPLACE | WRITE_DATA | APPEND_DATA;
/// The rights to make any change.
const WRITE: u32 = ADD | WRITE_ATTRIBUTES;

/// Returns whether an account, as a SID in text form, may change what SYSTEM runs. `own` is the calling account, which may
/// create services. Members of Administrators have their rights through the group.
fn is_trusted(account: &str, own: &str) -> bool {
    [SYSTEM, ADMINISTRATORS, TRUSTED_INSTALLER, own].contains(&account)
}

/// An object's owner, and what its access control list allows other accounts. Deny entries are ignored: they may come too
/// late in the list to take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// The owner.
    pub owner: String,
    /// The entries that allow access.
    pub grants: Vec<Grant>,
}

/// The rights of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The account.
    pub account: String,
    /// The rights as a Windows access mask.
    pub rights: u32,
    /// Whether the entry applies only to objects created in the folder later.
    pub inherit_only: bool,
}

/// How a checked object is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder on the path: its content must not be replaced.
    Way,
    /// The folder of a program, which loads libraries from there.
    ProgramFolder,
    /// The object that is run.
    Target,
}

/// Why an object must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objection<'a> {
    /// This untrusted account owns it.
    Owner(&'a str),
    /// This untrusted account may change it.
    Writer(&'a str),
}

impl Objection<'_> {
    /// Explains the objection to the object at `path`, and how to resolve it.
    pub fn explain(self, path: &str) -> String {
        let (told, command) = match self {
            Self::Owner(owner) => (
                format!(
                    "{path} belongs to {owner}, which could replace what SYSTEM runs or writes there; check its contents, then remove it or give it to the administrators"
                ),
                format!("takeown /A /F {path}"),
            ),
            Self::Writer(account) => (
                format!(
                    "{path} can be changed by {account}, which could replace what SYSTEM runs there; check its contents, then revoke that right"
                ),
                format!("icacls {path} /inheritance:d /remove:g *{account}"),
            ),
        };
        // Whoever made the file chose its name, and no shell may find anything of its own in it.
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '\\');
        if path.chars().all(is_plain) {
            format!("{told}: {command}")
        } else {
            told
        }
    }
}

/// Returns the first untrusted account that could change an object. `own` is the calling account.
pub fn objection<'a>(security: &'a Security, place: Place, own: &str) -> Option<Objection<'a>> {
    if !is_trusted(&security.owner, own) {
        return Some(Objection::Owner(&security.owner));
    }
    let harmful = match place {
        Place::Way => REPLACE,
        Place::ProgramFolder => ADD,
        Place::Target => WRITE,
    };
    let mut grants = security.grants.iter();
    let writer = grants.find(|grant| {
        let account = &*grant.account;
        !grant.inherit_only
            && grant.rights & harmful != 0
            && !OWNERS.contains(&account)
            && !is_trusted(account, own)
    });
    writer.map(|grant| Objection::Writer(&grant.account))
}

/// Returns the rights that an account keeps when it may read and run but no longer write; a trusted account keeps all.
pub fn reduced(account: &str, rights: u32, own: &str) -> u32 {
    if rights & WRITE == 0 || OWNERS.contains(&account) || is_trusted(account, own) {
        return rights;
    }
    let all = rights & GENERIC_ALL != 0;
    let instead = if all {
        GENERIC_READ | GENERIC_EXECUTE
    } else {
        0
    };
    (rights | instead) & !WRITE
}

/// Returns a path and its parent folders below the drive, starting with the uppermost.
pub fn way(path: &str) -> Vec<&str> {
    let ends = path.match_indices('\\').map(|(end, _)| end).skip(1);
    ends.chain([path.len()]).map(|end| &path[..end]).collect()
}

/// Returns whether a folder is below `C:\var\log`, and so holds the logs of one program.
pub fn is_log_folder(folder: &str) -> bool {
    let folder = folder.to_lowercase();
    folder.strip_prefix(r"c:\var\log\").is_some_and(|rest| {
        !rest.is_empty()
            && rest
                .split('\\')
                .all(|part| !matches!(part, "" | "." | ".."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "S-1-5-21-1-2-3-1001";
    const USERS: &str = "S-1-5-32-545";
    /// The rights to read and run.
    const READ: u32 = 0x12_00a9;

    fn grant(account: &str, rights: u32) -> Grant {
        Grant {
            account: account.into(),
            rights,
            inherit_only: false,
        }
    }

    fn security(grants: &[Grant]) -> Security {
        Security {
            owner: ADMINISTRATORS.into(),
            grants: grants.to_vec(),
        }
    }

    #[test]
    fn four_accounts_may_own_what_system_uses() {
        for (owner, trusted) in [
            (SYSTEM, true),
            (ADMINISTRATORS, true),
            (TRUSTED_INSTALLER, true),
            (OWN, true),
            // An Administrator: what belongs to the group is fine, what belongs to a person is not.
            ("S-1-5-21-1-2-3-500", false),
            (USERS, false),
            ("S-1-5-11", false),
            (EVERYONE, false),
            // CREATOR OWNER, which is not an account.
            ("S-1-3-0", false),
            ("", false),
        ] {
            let security = Security {
                owner: owner.into(),
                grants: vec![grant(owner, READ)],
            };
            let expected = (!trusted).then_some(Objection::Owner(owner));
            assert_eq!(objection(&security, Place::Way, OWN), expected);
        }
    }

    #[test]
    fn who_may_write_may_not_be_anybody() {
        use Place::{ProgramFolder, Target, Way};
        let (write_attributes, modify) = (0x100, 0x13_01bf);
        for (account, rights, at) in [
            (USERS, READ, &[] as &[Place]),
            (USERS, write_attributes, &[Target]),
            // What every folder below C:\ inherits on a server: users may add files and folders, but change none.
            (USERS, READ | WRITE_DATA, &[ProgramFolder, Target]),
            (USERS, READ | APPEND_DATA, &[ProgramFolder, Target]),
            (USERS, DELETE_CHILD, &[Way, ProgramFolder, Target]),
            (USERS, DELETE, &[Way, ProgramFolder, Target]),
            (USERS, WRITE_DAC, &[Way, ProgramFolder, Target]),
            (USERS, WRITE_OWNER, &[Way, ProgramFolder, Target]),
            ("S-1-5-11", modify, &[Way, ProgramFolder, Target]),
            (EVERYONE, ALL, &[Way, ProgramFolder, Target]),
            (SYSTEM, ALL, &[]),
            (OWN, modify, &[]),
            ("S-1-3-0", ALL, &[]),
            ("S-1-3-4", ALL, &[]),
        ] {
            for place in [Way, ProgramFolder, Target] {
                let list = security(&[grant(SYSTEM, ALL), grant(account, rights)]);
                let expected = at.contains(&place).then_some(Objection::Writer(account));
                let found = objection(&list, place, OWN);
                assert_eq!(found, expected, "{account} {rights:#x} {place:?}");
                let later = Grant {
                    inherit_only: true,
                    ..grant(account, rights)
                };
                assert_eq!(objection(&security(&[later]), place, OWN), None);
            }
            // The reduced rights leave nothing to object to.
            let kept = grant(account, reduced(account, rights, OWN));
            assert_eq!(objection(&security(&[kept]), Target, OWN), None);
        }
    }

    #[test]
    fn rights_to_write_are_taken_away_and_no_others() {
        for (account, rights, kept) in [
            (USERS, READ, READ),
            (USERS, READ | WRITE_DATA | APPEND_DATA, READ),
            ("S-1-5-11", 0x13_01bf, READ),
            (USERS, WRITE_DATA, 0),
            (EVERYONE, GENERIC_ALL, GENERIC_READ | GENERIC_EXECUTE),
            (EVERYONE, GENERIC_READ | GENERIC_WRITE, GENERIC_READ),
            (SYSTEM, 0x1f_01ff, 0x1f_01ff),
            ("S-1-3-0", GENERIC_ALL, GENERIC_ALL),
        ] {
            assert_eq!(reduced(account, rights, OWN), kept, "{account} {rights:#x}");
        }
    }

    #[test]
    fn an_objection_says_what_to_do() {
        for (objection, action) in [
            (Objection::Owner(USERS), r"takeown /A /F C:\x"),
            (
                Objection::Writer(USERS),
                r"icacls C:\x /inheritance:d /remove:g *S-1-5-32-545",
            ),
        ] {
            let text = objection.explain(r"C:\x");
            assert!(text.contains(action) && text.contains(USERS), "{text}");
            for planted in [
                r"C:\k\a&calc&.dll",
                r"C:\k\a b.dll",
                r"C:\k\ä.dll",
                r"C:\k\%a%.dll",
            ] {
                let text = objection.explain(planted);
                let command = action.split(' ').next().unwrap();
                assert!(text.contains(planted) && !text.contains(command), "{text}");
            }
        }
    }

    #[test]
    fn the_way_to_a_folder_begins_below_the_drive() {
        assert_eq!(way(r"C:\k"), [r"C:\k"]);
        assert_eq!(
            way(r"C:\var\log\a"),
            [r"C:\var", r"C:\var\log", r"C:\var\log\a"]
        );
    }

    #[test]
    fn folders_that_hold_more_than_logs_of_one_program_are_none() {
        for (folder, is) in [
            (r"C:\var\log\csi-proxy", true),
            (r"c:\VAR\log\a\b", true),
            (r"C:\var\log", false),
            (r"C:\var\log\", false),
            (r"C:\var\log\..\x", false),
            (r"C:\Windows\Temp", false),
            (r"D:\var\log\a", false),
        ] {
            assert_eq!(is_log_folder(folder), is, "{folder}");
        }
    }
}
