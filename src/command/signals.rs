//! Waits for signals that ask the process to end.

use futures::future::select_all;

/// A signal with its number.
#[derive(Clone, Copy)]
pub enum Signal {
    /// The terminal was closed.
    Hangup = 1,
    /// Ctrl-C.
    Interrupt = 2,
    /// What a container runtime sends.
    Terminate = 15,
}

/// Waits until one of these signals arrives, even if that is before this is polled, and returns its number.
pub fn signalled<const N: usize>(signals: [Signal; N]) -> impl Future<Output = i32> {
    let waiting = signals.map(|signal| {
        let coming = listen(signal);
        Box::pin(async move {
            // If no handler can be installed, the signal ends the process as usual.
            match coming {
                Ok(coming) => coming.await,
                Err(_) => std::future::pending().await,
            }
            signal as i32
        })
    });
    async { select_all(waiting).await.0 }
}

#[cfg(unix)]
fn listen(signal: Signal) -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal as listen};

    let mut stream = listen(SignalKind::from_raw(signal as i32))?;
    Ok(async move {
        stream.recv().await;
    })
}

/// On Windows, people interrupt with Ctrl-C.
#[cfg(windows)]
fn listen(signal: Signal) -> std::io::Result<impl Future<Output = ()>> {
    let mut stream = match signal {
        Signal::Interrupt => tokio::signal::windows::ctrl_c()?,
        Signal::Hangup | Signal::Terminate => return Err(std::io::ErrorKind::Unsupported.into()),
    };
    Ok(async move {
        stream.recv().await;
    })
}
