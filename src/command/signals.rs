//! How a process is asked to end.

use futures::future::select_all;

/// A signal, by its number.
#[derive(Clone, Copy)]
pub enum Signal {
    /// The terminal is gone.
    Hangup = 1,
    /// Ctrl-C.
    Interrupt = 2,
    /// As a container runtime does.
    Terminate = 15,
}

/// Waits until one of these signals comes, also where it came before this is waited for, and returns its number.
pub fn signalled<const N: usize>(signals: [Signal; N]) -> impl Future<Output = i32> {
    let waiting = signals.map(|signal| {
        let coming = listen(signal);
        Box::pin(async move {
            // Where it cannot be waited for, the signal ends the process as it would any other.
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

/// What Windows has instead: the console is closed, Ctrl-C, Ctrl-Break.
#[cfg(windows)]
fn listen(signal: Signal) -> std::io::Result<impl Future<Output = ()>> {
    use futures::FutureExt;
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};

    Ok(match signal {
        Signal::Hangup => {
            let mut event = ctrl_close()?;
            async move { event.recv().await }.boxed()
        }
        Signal::Interrupt => {
            let mut event = ctrl_c()?;
            async move { event.recv().await }.boxed()
        }
        Signal::Terminate => {
            let mut event = ctrl_break()?;
            async move { event.recv().await }.boxed()
        }
    }
    .map(|_| ()))
}
