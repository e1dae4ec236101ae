//! Waits for signals that ask the process to end.

use futures::future::select_all;

/// The terminal was closed; Ctrl-C; and what a container runtime sends.
const SIGNALS: [i32; 3] = [1, INTERRUPT, 15];
const INTERRUPT: i32 = 2;

/// Waits until one of the signals arrives, even if that is before this is polled, and returns its number.
pub fn signalled() -> impl Future<Output = i32> {
    let waiting = SIGNALS.map(|signal| {
        let coming = listen(signal);
        Box::pin(async move {
            // If no handler can be installed, the signal ends the process as usual.
            match coming {
                Ok(coming) => coming.await,
                Err(_) => std::future::pending().await,
            }
            signal
        })
    });
    async { select_all(waiting).await.0 }
}

#[cfg(unix)]
fn listen(signal: i32) -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal as listen};

    let mut stream = listen(SignalKind::from_raw(signal))?;
    Ok(async move {
        stream.recv().await;
    })
}

/// On Windows, people interrupt with Ctrl-C.
#[cfg(windows)]
fn listen(signal: i32) -> std::io::Result<impl Future<Output = ()>> {
    if signal != INTERRUPT {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let mut stream = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        stream.recv().await;
    })
}
