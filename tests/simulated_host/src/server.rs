//! The SSH server of a simulated host.

use std::borrow::Cow;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use russh::keys::{Algorithm, HashAlg, PrivateKey};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handle, Handler, Msg, PublicKeyOffer, Session,
    VerifiedPublicKey,
};
use russh::{Channel, ChannelId, Preferred, SshId, cipher, kex, mac};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::agent::Printed;
use super::distance;
use super::faults::{Greeting, Speech};
use super::gauge::Entered;
use super::host::Host;
use super::penalty::REFUSAL;
use super::sftp::Sftp;

/// Error that ends a connection; the operator sees it break.
#[derive(Debug)]
pub struct Cut;

impl From<russh::Error> for Cut {
    fn from(_: russh::Error) -> Self {
        Self
    }
}

/// Accepts connections until the task is aborted.
pub async fn listen(host: Arc<Host>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let host = Arc::clone(&host);
        tokio::spawn(async move {
            host.count(|counters| {
                counters.connections += 1;
                counters.connections_now += 1;
                counters.connections_most = counters.connections_most.max(counters.connections_now);
            });
            let entered = Entered::new(&host.gauges.connections);
            connection(&host, stream).await;
            drop(entered);
            host.count(|counters| counters.connections_now -= 1);
        });
    }
}

async fn connection(host: &Arc<Host>, stream: TcpStream) {
    let mut cut = host.cuts();
    // The session's task cannot be aborted, but its connection can be closed.
    let Ok(stream) = stream.into_std() else {
        return;
    };
    let Ok(second) = stream.try_clone() else {
        return;
    };
    let Ok(stream) = TcpStream::from_std(stream) else {
        return;
    };
    tokio::select! {
        () = talk(host, stream) => {}
        _ = cut.changed() => {}
    }
    // It may already be closed.
    let _ = second.shutdown(Shutdown::Both);
}

async fn talk(host: &Arc<Host>, mut stream: TcpStream) {
    let faults = host.faults();
    match faults.greeting {
        Greeting::Modern | Greeting::Weak => {}
        Greeting::Silent => {
            // Until the client gives up.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return;
        }
        Greeting::Flood => {
            while stream.write_all(&[b'A'; 4096]).await.is_ok() {}
            return;
        }
    }
    let (profile, penalty) = host.change(|state| (state.profile, state.penalty));
    if profile.penalizes && penalty.refuses(Instant::now()) {
        // The client may be gone.
        let _ = stream.write_all(REFUSAL).await;
        return;
    }
    let Ok(number) = host.admit("connection").await else {
        return;
    };
    let config = Arc::new(config(host.host_keys(), faults.greeting, profile.version));
    if host.settle(number).is_err() {
        return;
    }
    // Nagle's algorithm would delay each answer until the previous one is acknowledged.
    let _ = stream.set_nodelay(true);
    let stream = Counted {
        stream,
        host: Arc::clone(host),
    };
    if faults.distance.is_zero() {
        serve(host, config, stream).await;
    } else {
        let (near, way) = distance::far(stream, faults.distance);
        tokio::join!(serve(host, config, near), way);
    }
}

async fn serve<S>(host: &Arc<Host>, config: Arc<Config>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = Connection {
        host: Arc::clone(host),
        sftp: None,
        has_tried: false,
        at_work: None,
    };
    if let Ok(session) = russh::server::run_stream(config, stream, connection).await {
        let _ = session.await;
    }
}

fn config(keys: Vec<PrivateKey>, greeting: Greeting, version: &str) -> Config {
    let preferred = if greeting == Greeting::Weak {
        Preferred {
            kex: Cow::Borrowed(&[kex::DH_G14_SHA1, kex::DH_G1_SHA1]),
            key: Cow::Borrowed(&[Algorithm::Rsa { hash: None }]),
            cipher: Cow::Borrowed(&[cipher::AES_256_CBC, cipher::AES_128_CBC]),
            mac: Cow::Borrowed(&[mac::HMAC_SHA1]),
            ..Preferred::DEFAULT
        }
    } else {
        Preferred {
            key: Cow::Owned(
                Preferred::DEFAULT
                    .key
                    .iter()
                    .filter(|key| {
                        !matches!(
                            key,
                            Algorithm::Rsa {
                                hash: None | Some(HashAlg::Sha256)
                            }
                        )
                    })
                    .cloned()
                    .collect(),
            ),
            ..Preferred::DEFAULT
        }
    };
    Config {
        server_id: SshId::Standard(format!("SSH-2.0-OpenSSH_for_Windows_{version}").into()),
        keys,
        preferred,
        auth_rejection_time: Duration::ZERO,
        inactivity_timeout: None,
        ..Config::default()
    }
}

/// A stream that counts received bytes.
struct Counted {
    stream: TcpStream,
    host: Arc<Host>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let received = (buffer.filled().len() - before) as u64;
        if received > 0 {
            self.host
                .count(|counters| counters.bytes_received += received);
        }
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

struct Connection {
    host: Arc<Host>,
    sftp: Option<(ChannelId, Sftp)>,
    /// Whether the client has tried to log in.
    has_tried: bool,
    /// Set from the login on.
    at_work: Option<Entered>,
}

impl Drop for Connection {
    /// Ends sftp-server with its connection: Windows closes the files it had open.
    fn drop(&mut self) {
        if self.at_work.is_none() {
            let has_tried = self.has_tried;
            self.host
                .change(|state| state.penalty.add(has_tried, Instant::now()));
        }
        if let Some((_, sftp)) = &mut self.sftp {
            self.host.change(|state| sftp.end(&mut state.disk));
            self.host.count(|_| ());
        }
    }
}

impl Handler for Connection {
    type Error = Cut;

    async fn auth_publickey_offered(
        &mut self,
        _user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Cut> {
        self.has_tried = true;
        let number = self.host.admit("login offered").await?;
        let known = self.host.lets_in(offer.public_key);
        self.host.settle(number)?;
        Ok(if known { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_publickey(
        &mut self,
        _user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Cut> {
        let number = self.host.admit("login").await?;
        let known = self.host.lets_in(key.public_key);
        self.host.settle(number)?;
        if !known {
            return Ok(Auth::reject());
        }
        self.host.count(|counters| counters.logins += 1);
        self.at_work = Some(Entered::new(&self.host.gauges.logins));
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Cut> {
        let number = self.host.admit("channel").await?;
        self.host.settle(number)?;
        reply.accept().await;
        Ok(())
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Cut> {
        let number = self.host.admit("subsystem").await?;
        self.host.settle(number)?;
        if name == "sftp" {
            let profile = self.host.change(|state| state.profile);
            self.sftp = Some((channel, Sftp::new(profile)));
            session.channel_success(channel)?;
            let noise = self.host.faults().shell_prints;
            if !noise.is_empty() {
                session.data(channel, noise)?;
            }
        } else {
            session.channel_failure(channel)?;
        }
        Ok(())
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Cut> {
        let Some((_, sftp)) = self.sftp.as_mut().filter(|(sftp, _)| *sftp == channel) else {
            return Ok(());
        };
        sftp.receive(data);
        while let Some(packet) = sftp.next().map_err(|()| Cut)? {
            let number = self.host.admit(packet.name()).await?;
            if packet.name() == "sftp open" {
                self.host.count(|counters| counters.uploads += 1);
            }
            let answer = self
                .host
                .change(|state| sftp.carry_out(&mut state.disk, &packet));
            // Wakes commands that wait for uploaded files.
            self.host.count(|_| ());
            self.host.settle(number)?;
            session.data(channel, answer)?;
        }
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Cut> {
        let number = self.host.admit("command").await?;
        let command = String::from_utf8_lossy(command).into_owned();
        self.host.count(|counters| counters.commands += 1);
        let (host, handle) = (Arc::clone(&self.host), session.handle());
        let (profile, shell) = host.change(|state| (state.profile, state.shell));
        let line = shell.script(profile, &command);
        // Runs immediately if possible, so that cutting the connection afterwards loses the answer.
        let takes_time = host.takes_time(&line);
        let at_once = (!takes_time).then(|| host.carry_out(&line)).transpose()?;
        self.host.settle(number)?;
        session.channel_success(channel)?;
        // In a separate task, so that the session keeps answering while the command runs.
        tokio::spawn(async move {
            let printed = match at_once {
                Some(printed) => printed,
                None => match host.carry_out_in_time(&line).await {
                    Ok(printed) => printed,
                    Err(Cut) => return,
                },
            };
            let faults = host.faults();
            if faults.holds_commands {
                host.hold().await;
            }
            if faults.speech == Speech::Endless {
                while handle.data(channel, vec![b'x'; 4096]).await.is_ok() {}
                return;
            }
            if faults.speech == Speech::Stray {
                let _ = handle.extended_data(channel, 2, vec![b'x']).await;
                return;
            }
            let mut spoken = faults.speech.spoken(printed);
            spoken.stdout.splice(..0, faults.shell_prints);
            spoken.status = shell.exit_status(spoken.status);
            // The client may be gone.
            let _ = print(&handle, channel, spoken).await;
        });
        Ok(())
    }
}

async fn print(handle: &Handle, channel: ChannelId, printed: Printed) -> Result<(), ()> {
    /// SSH's code for standard error. Source: RFC 4254, section 5.2.
    const STANDARD_ERROR: u32 = 1;
    let Printed {
        stdout,
        stderr,
        status,
    } = printed;
    if !stderr.is_empty() {
        let sent = handle.extended_data(channel, STANDARD_ERROR, stderr).await;
        sent.map_err(drop)?;
    }
    handle.data(channel, stdout).await.map_err(drop)?;
    handle.exit_status_request(channel, status).await?;
    handle.eof(channel).await?;
    handle.close(channel).await
}
