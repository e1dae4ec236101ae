//! How a request and csi-proxy get to a node.

use std::sync::Arc;

use windows_storage_agent::paths::{
    BOOTSTRAP_DIR, CSI_PROXY_EXE, CSI_PROXY_PREFIX, INCOMING_DIR, to_sftp,
};
use windows_storage_agent::protocol::{Packed, Request};

use super::{Actions, read};
use crate::node::session::{Running, Session};
use crate::node::transfer::Upload;
use crate::node::{NodeError, Reason};
use crate::payload::Program;

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

    /// Has nothing stay behind that this visit has brought and nobody needs.
    pub fn clean_up(&mut self) {
        self.drop_early();
        self.tidy_up();
    }

    /// Brings a request and what it needs, and starts the command that takes them as soon as they are on their way.
    pub(super) fn bring(
        &mut self,
        path: &str,
        request: Request,
        with_files: bool,
        visit: &str,
        command: &str,
    ) -> Result<Running, NodeError> {
        let path = to_sftp(path);
        let start = |session: &Session| session.start(command);
        if !with_files || self.payload.csi_proxy.packing.is_none() {
            let text = written(&request)?;
            return self.send((&path, &text), None, &[], start);
        }
        let Some((early, size)) = self.early.take() else {
            let parcel = self.parcel(request, visit)?;
            return self.send((&path, &parcel.request), Some(parcel.file()), &[], start);
        };
        let mut announced = request.clone();
        let packed = announce(&mut announced, &self.payload.csi_proxy, size, visit);
        let text = written(&announced)?;
        // It takes longer to come up than the rest of this.
        let running = start(&self.session)?;
        // The name is a new one: nothing has to be removed for it.
        let packed = to_sftp(&packed);
        if self.session.try_rename(&to_sftp(&early), &packed)? {
            return self.send((&path, &text), None, &[&packed], |_| Ok(running));
        }
        let _ = self.session.remove(&to_sftp(&early));
        match self.parcel(request, visit) {
            Ok(parcel) => self.send((&path, &parcel.request), Some(parcel.file()), &[], |_| {
                Ok(running)
            }),
            Err(error) => {
                // It would wait for what does not come.
                self.session.give_up();
                Err(error)
            }
        }
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

    /// Sends a request and a file for it, and starts the command that takes them. Where the server still answers after a
    /// failure, none of them stays behind, nor what is there `already` for it.
    fn send(
        &mut self,
        request: (&str, &[u8]),
        file: Option<(&str, &[u8])>,
        already: &[&str],
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
        let paths = [first.0].into_iter().chain(second.map(|(path, _)| path));
        for path in paths.chain(already.iter().copied()) {
            let _ = self.session.remove(path);
        }
        self.tidy_up();
        // The command would wait for what does not come.
        self.session.give_up();
        Err(error)
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
pub(super) fn announce(request: &mut Request, program: &Program, size: u64, visit: &str) -> String {
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
