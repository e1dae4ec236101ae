//! More than one thing at a time over one session: what is asked for waits for the server only once.

use std::io::ErrorKind;

use ssh2::Sftp;

use super::{Upload, answered, create, found, make, rename};
use crate::node::session::{Session, WOULD_BLOCK};
use crate::node::{NodeError, Reason};

impl Session {
    /// One file in a folder that may have to be made, and has to be in all likelihood where it `is_new`. While the file is on
    /// its way something else is done.
    pub fn upload_into<T>(
        &mut self,
        (folder, is_new): (&str, bool),
        path: &str,
        content: &[u8],
        meanwhile: impl FnOnce(&Self) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let create_there =
            |session: &mut Self| session.with_sftp(path, |sftp| found(create(sftp, path)));
        let created = if is_new {
            // What is wrong with the folder, if anything, shows when the file is made.
            self.pipelined(folder, |sftp| make(sftp, folder), create_there)?
                .1
        } else {
            create_there(self)
        };
        let upload = if let Some(file) = created? {
            self.begin_sending(Upload::of(file, path, content))?
        } else {
            self.make_folders(folder)?;
            let file = self.with_sftp(path, |sftp| create(sftp, path))?;
            Upload::of(file, path, content)
        };
        let done = meanwhile(self);
        self.finish_upload(upload)?;
        done
    }

    /// Like [`Session::upload`], but comes back when the first part is on its way. What is done meanwhile costs no time
    /// of its own, where it waits for the server.
    pub fn begin_upload<'a, T>(
        &mut self,
        path: &str,
        content: &'a [u8],
        meanwhile: impl FnOnce(&Self) -> T,
    ) -> Result<(Result<Upload<'a>, NodeError>, T), NodeError> {
        let create = |sftp: &Sftp| create(sftp, path);
        let (created, done) = self.pipelined(path, create, |session| meanwhile(session))?;
        let upload = created.and_then(|file| self.begin_sending(Upload::of(file, path, content)));
        Ok((upload, done))
    }

    /// Like [`Session::begin_upload`], while another file gets its name, if the server gives it one: whether it has.
    pub fn begin_upload_and_rename<'a>(
        &mut self,
        path: &str,
        content: &'a [u8],
        (from, to): (&str, &str),
    ) -> Result<(Result<Upload<'a>, NodeError>, bool), NodeError> {
        let renaming = |sftp: &Sftp| answered(rename(sftp, from, to));
        let (renamed, upload) = self.pipelined(to, renaming, |session| {
            let (upload, ()) = session.begin_upload(path, content, |_| ())?;
            upload
        })?;
        Ok((upload, renamed?.is_ok()))
    }

    /// Asks something over SFTP, and does something else until the answer is there. An error means that neither was done.
    fn pipelined<T, U>(
        &mut self,
        path: &str,
        request: impl Fn(&Sftp) -> Result<T, ssh2::Error>,
        meanwhile: impl FnOnce(&mut Self) -> U,
    ) -> Result<(Result<T, NodeError>, U), NodeError> {
        self.open_sftp()?;
        let mut answer = None;
        if let Some(sftp) = &self.sftp {
            let sent = self.without_waiting(|| match request(sftp) {
                Err(error) if error.code() == WOULD_BLOCK => Err(ErrorKind::WouldBlock.into()),
                answered => {
                    answer = Some(answered);
                    Ok::<_, std::io::Error>(())
                }
            });
            sent.map_err(|error| {
                self.cut();
                let _ = request(sftp);
                self.give_up();
                NodeError::new(Reason::TransferFailed, format!("{path}: {error}"))
            })?;
        }
        let done = meanwhile(self);
        // libssh2 goes on where it was.
        let answer = self.with_sftp(path, |sftp| answer.unwrap_or_else(|| request(sftp)));
        Ok((answer, done))
    }

    /// Has the first part of a file be on its way.
    fn begin_sending<'a>(&mut self, mut upload: Upload<'a>) -> Result<Upload<'a>, NodeError> {
        if let Err(closed) = self.fence.pass() {
            return Err(self.sending_ended(upload, &std::io::Error::other(closed)));
        }
        let most = self.window();
        match self.without_waiting(|| upload.write(most)) {
            Ok(_) => Ok(upload),
            Err(error) => Err(self.sending_ended(upload, &error)),
        }
    }
}
