//! How a request and csi-proxy get to a node.

use std::sync::Arc;
use std::time::Duration;

use protocol::paths::{BOOTSTRAP_DIR, CSI_PROXY_EXE, CSI_PROXY_PREFIX, INCOMING_DIR, to_sftp};
use protocol::{CALLED_OFF, Packed, Request};

use super::command::ApplyCommand;
use super::{Actions, read};
use crate::node::session::{Running, Session};
use crate::node::transfer::Upload;
use crate::node::{NodeError, Reason};
use crate::payload::Program;

/// How soon a command ends that was called off: it looks every tenth of a second.
const CALLED_OFF_WITHIN: Duration = Duration::from_secs(10);

/// A request, and csi-proxy for it.
struct Parcel {
    request: Vec<u8>,
    packed: String,
    content: Arc<Vec<u8>>,
}

impl Parcel {
    fn file(&self) -> (&str, &[u8]) {
        (&self.packed, &self.content)
    }
}

impl Actions {
    /// Brings csi-proxy to where only administrators can write, under a name that the next attempt writes over.
    pub(super) fn bring_early(&mut self) -> Result<(), NodeError> {
        if self.session.exists(&to_sftp(CSI_PROXY_EXE))? {
            return Ok(());
        }
        let (csi_proxy, content) = read(&self.payload.csi_proxy)?;
        if csi_proxy.packing.is_none() {
            return Ok(());
        }
        let path = format!(
            r"{BOOTSTRAP_DIR}\{CSI_PROXY_PREFIX}{}.zst",
            &csi_proxy.travels_as[..16]
        );
        tracing::info!(
            bytes = content.len(),
            version = csi_proxy.version,
            "sending csi-proxy"
        );
        self.session.upload(&to_sftp(&path), &content)?;
        self.early = Some((path, content.len() as u64));
        Ok(())
    }

    /// Removes what came early and was not needed.
    pub(super) fn drop_early(&mut self) {
        if let Some((path, _)) = self.early.take() {
            // One that stays is written over the next time.
            let _ = self.session.remove(&to_sftp(&path));
        }
    }

    /// Removes what is of no use any more.
    pub(super) fn tidy_up(&mut self) {
        for path in std::mem::take(&mut self.left_over) {
            // One that stays is written over the next time.
            let _ = self.session.remove(&path);
        }
    }

    /// Has nothing stay behind that this visit has brought and nobody needs. The last that is done in a session.
    pub fn clean_up(&mut self) {
        self.call_off();
        self.drop_early();
        self.tidy_up();
        // Word of this has come long since. What was refused the agent has told already.
        let _ = self.session.confirm_closed();
        self.session.leave();
    }

    /// Has the command end that waits for a request, which does not come. It would end by itself after some minutes, and
    /// keep its program, which nobody could remove or write over so long.
    fn call_off(&mut self) {
        let Some(mut command) = self.waiting.take() else {
            return;
        };
        let ended = self
            .session
            .upload(&to_sftp(&command.path), CALLED_OFF.as_bytes())
            .and_then(|()| command.take(&self.session))
            .and_then(|running| running.finish(&self.session, CALLED_OFF_WITHIN));
        if ended.is_err() {
            // Its channel would wait for it.
            self.session.give_up();
        }
    }

    /// Brings a request and what it needs, and has the command that takes them start about when it is needed, where it does
    /// not wait for them already.
    pub(super) fn bring(
        &mut self,
        command: &mut ApplyCommand,
        mut request: Request,
        with_files: bool,
    ) -> Result<Running, NodeError> {
        let path = to_sftp(&command.path);
        let is_packed = self.payload.csi_proxy.packing.is_some();
        if with_files && !is_packed {
            // It has to be there before the command: nobody unpacks it, and so nobody waits for it.
            let (csi_proxy, content) = read(&self.payload.csi_proxy)?;
            let size = content.len() as u64;
            let upload = announce(&mut request, &csi_proxy, size, &command.visit);
            self.session.upload(&to_sftp(&upload), &content)?;
        }
        if !with_files || !is_packed {
            let text = written(&request)?;
            return self.send((&path, &text), None, |session| command.take(session));
        }
        if let Some((early, size)) = self.early.take() {
            return self.bring_the_rest(command, request, (&early, size));
        }
        let parcel = self.parcel(request, &command.visit)?;
        self.send((&path, &parcel.request), Some(parcel.file()), |session| {
            command.take(session)
        })
    }

    /// Gives csi-proxy that came early the name that the request has for it.
    fn bring_the_rest(
        &mut self,
        command: &mut ApplyCommand,
        mut request: Request,
        (early, size): (&str, u64),
    ) -> Result<Running, NodeError> {
        let packed = announce(&mut request, &self.payload.csi_proxy, size, &command.visit);
        let (path, early, packed) = (to_sftp(&command.path), to_sftp(early), to_sftp(&packed));
        let text = written(&request)?;
        // It takes longer to come up than the rest of this.
        let running = command.take(&self.session)?;
        // The name is a new one: nothing has to be removed for it.
        let sent = self
            .session
            .begin_upload_and_rename(&path, &text, (&early, &packed));
        let sent = sent.and_then(|(upload, renamed)| {
            self.session.finish_upload(upload?)?;
            if !renamed {
                let _ = self.session.remove(&early);
                let (_, content) = read(&self.payload.csi_proxy)?;
                self.session.upload(&packed, &content)?;
            }
            Ok(())
        });
        match sent {
            Ok(()) => Ok(running),
            Err(error) => Err(self.take_back(&[&path, &early, &packed], error)),
        }
    }

    /// Has nothing stay behind of what does not come whole, where the server still answers.
    fn take_back(&mut self, paths: &[&str], error: NodeError) -> NodeError {
        for path in paths {
            let _ = self.session.remove(path);
        }
        self.tidy_up();
        // The command would wait for what does not come.
        self.session.give_up();
        error
    }

    fn parcel(&self, mut request: Request, visit: &str) -> Result<Parcel, NodeError> {
        let (csi_proxy, content) = read(&self.payload.csi_proxy)?;
        let packed = announce(&mut request, &csi_proxy, content.len() as u64, visit);
        tracing::info!(
            bytes = content.len(),
            version = csi_proxy.version,
            "sending csi-proxy"
        );
        Ok(Parcel {
            request: written(&request)?,
            packed: to_sftp(&packed),
            content,
        })
    }

    /// Sends a request and a file for it, and starts the command that takes them.
    fn send(
        &mut self,
        request: (&str, &[u8]),
        file: Option<(&str, &[u8])>,
        start: impl FnOnce(&Session) -> Result<Running, NodeError>,
    ) -> Result<Running, NodeError> {
        // The larger first: it is on its way while the other is asked for.
        let (first, second) = file.map_or((request, None), |file| (file, Some(request)));
        let (begun, running) = self.session.begin_upload(first.0, first.1, start)?;
        // Where it does not start the connection is lost.
        let running = running?;
        let Err(error) = begun.and_then(|upload| self.finish_uploads(upload, second)) else {
            return Ok(running);
        };
        let paths: Vec<_> = [first]
            .into_iter()
            .chain(second)
            .map(|(path, _)| path)
            .collect();
        Err(self.take_back(&paths, error))
    }

    fn finish_uploads(
        &mut self,
        first: Upload<'_>,
        second: Option<(&str, &[u8])>,
    ) -> Result<(), NodeError> {
        let second = second.map(|(path, content)| {
            let (begun, ()) = self.session.begin_upload(path, content, |_| ())?;
            begun
        });
        let second = second.transpose()?;
        self.session.finish_upload(first)?;
        second.map_or(Ok(()), |upload| self.session.finish_upload(upload))
    }
}

fn written(request: &Request) -> Result<Vec<u8>, NodeError> {
    serde_json::to_vec(request).map_err(|error| {
        NodeError::new(
            Reason::InvalidServices,
            format!("the request cannot be written: {error}"),
        )
    })
}

/// Has a request say where csi-proxy comes and how; gives the path to send it to.
fn announce(request: &mut Request, program: &Program, size: u64, visit: &str) -> String {
    // What is unpacked is known by its content, so one that nobody takes is written over the next time.
    let upload = format!(
        r"{INCOMING_DIR}\{CSI_PROXY_PREFIX}{}.part",
        &program.sha256[..16]
    );
    let packed = program.packing.map(|packing| Packed {
        path: format!(r"{INCOMING_DIR}\{CSI_PROXY_PREFIX}{visit}.zst"),
        format: packing.format,
        size,
        unpacked_size: packing.unpacked_size,
    });
    let travels_to = packed
        .as_ref()
        .map_or_else(|| upload.clone(), |packed| packed.path.clone());
    for file in request
        .files
        .iter_mut()
        .filter(|file| file.sha256 == program.sha256)
    {
        file.upload = Some(upload.clone());
        file.packed.clone_from(&packed);
    }
    travels_to
}
