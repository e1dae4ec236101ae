//! Checks what Windows allows with files that are open or run as programs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::process::Command;

use windows_storage_agent::errors::may_pass;
use windows_sys::Win32::Storage::FileSystem::{FILE_SHARE_READ, FILE_SHARE_WRITE};

use crate::lab::{ANY, Attempt, Lab};
use crate::windows::{acl, files, owners};

pub const ALL: &[Attempt] = &[
    ("file.replace", "done", |lab| {
        let [from, to] = two(lab)?;
        done(files::rename(&from, &to))
    }),
    ("file.replace-read-only", "done", |lab| {
        let [from, to] = two(lab)?;
        let mut rights = fs::metadata(&to)?.permissions();
        rights.set_readonly(true);
        fs::set_permissions(&to, rights)?;
        done(files::rename(&from, &to))
    }),
    ("file.replace-while-read", "refused for now", |lab| {
        let [from, to] = two(lab)?;
        let share = FILE_SHARE_READ | FILE_SHARE_WRITE;
        let _reader = OpenOptions::new().read(true).share_mode(share).open(&to)?;
        for_now(fs::rename(from, to))
    }),
    // An SFTP server holds an upload open like this since OpenSSH 7.9.
    ("file.read-an-upload", "refused for now", |lab| {
        let [path, _] = two(lab)?;
        let mut upload = OpenOptions::new();
        let _upload = upload
            .write(true)
            .share_mode(FILE_SHARE_WRITE)
            .open(&path)?;
        for_now(fs::read(path).map(drop))
    }),
    ("file.hard-link", ANY, |lab| {
        let [from, to] = two(lab)?;
        fs::remove_file(&to)?;
        done(fs::hard_link(from, to))
    }),
    ("file.owner-and-access-list", "done", |lab| {
        let [path, _] = two(lab)?;
        acl::protect(&path, acl::PROGRAM)?;
        let checked = owners::check_program(&path);
        checked.map_err(|failure| io::Error::other(failure.message))?;
        Ok("done".to_owned())
    }),
    // An administrator may have placed `C:\k` on another drive like this.
    ("file.through-a-junction", "done", |lab| {
        let (junction, target) = (lab.file("junction"), lab.file("target"));
        fs::create_dir(&target)?;
        let mut command = Command::new("cmd.exe");
        command
            .args(["/d", "/c", "mklink", "/J", &junction, &target])
            .output()?;
        let program = format!(r"{junction}\program.exe");
        fs::write(&program, "")?;
        acl::protect(&program, acl::PROGRAM)?;
        let checked = owners::check_way(&junction).and_then(|()| owners::check_program(&program));
        checked.map_err(|failure| io::Error::other(failure.message))?;
        Ok("done".to_owned())
    }),
];

/// Returns two existing files.
fn two(lab: &Lab) -> io::Result<[String; 2]> {
    let paths = ["from", "to"].map(|name| lab.file(name));
    for path in &paths {
        files::remove(path)?;
        fs::write(path, path)?;
    }
    Ok(paths)
}

pub fn done(result: io::Result<()>) -> io::Result<String> {
    result.map(|()| "done".to_owned())
}

/// Reports whether the agent would treat the error as temporary and retry.
pub fn for_now(result: io::Result<()>) -> io::Result<String> {
    match result {
        Err(error) if may_pass(&error) => Ok("refused for now".to_owned()),
        result => done(result),
    }
}
