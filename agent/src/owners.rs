//! Whose files may lie where SYSTEM writes and runs programs.
//!
//! Every account may make folders in `C:\`. Whoever has made `C:\k` before the agent came owns it, and may remove and
//! replace what is in it whatever the access lists of the files say.

/// `NT SERVICE\TrustedInstaller`.
const TRUSTED_INSTALLER: &str = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";
const SYSTEM: &str = "S-1-5-18";
const ADMINISTRATORS: &str = "S-1-5-32-544";
/// Of a machine or a domain: its Administrator, Domain Admins, Enterprise Admins.
const OF_DOMAINS: [&str; 3] = ["500", "512", "519"];

/// Whether that account, as text of a SID, can do what SYSTEM can anyway. `own` is the account that asks: it is about to
/// make a service.
#[must_use]
pub fn is_trusted(owner: &str, own: &str) -> bool {
    let of_domain = owner.strip_prefix("S-1-5-21-").is_some_and(|rest| {
        rest.rsplit_once('-')
            .is_some_and(|(_, account)| OF_DOMAINS.contains(&account))
    });
    of_domain || [SYSTEM, ADMINISTRATORS, TRUSTED_INSTALLER, own].contains(&owner)
}

/// A path and the folders that lead to it, below the drive, the uppermost first.
#[must_use]
pub fn way(path: &str) -> Vec<&str> {
    let ends = path.match_indices('\\').map(|(end, _)| end).skip(1);
    ends.chain([path.len()]).map(|end| &path[..end]).collect()
}

/// Whether a log folder is one below `C:\var\log`, and so for one program's logs.
#[must_use]
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

    #[test]
    fn who_is_an_administrator_anyway_may_own_what_system_uses() {
        let own = "S-1-5-21-1-2-3-1001";
        for (owner, trusted) in [
            (SYSTEM, true),
            (ADMINISTRATORS, true),
            (TRUSTED_INSTALLER, true),
            (own, true),
            ("S-1-5-21-1-2-3-500", true),
            ("S-1-5-21-4-5-6-512", true),
            ("S-1-5-21-1-2-3-1002", false),
            ("S-1-5-21-1-2-3-1500", false),
            ("S-1-5-32-545", false),
            ("S-1-5-11", false),
            ("S-1-1-0", false),
            ("S-1-5-500", false),
            ("", false),
        ] {
            assert_eq!(is_trusted(owner, own), trusted, "{owner}");
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
