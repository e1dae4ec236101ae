//! A bearer token out of a file, which somebody else keeps new: a kubelet writes one into every pod, and an old one holds
//! for an hour at most.
//!
//! The library reads such files by the clock of the day. Where that is set back by hours, it goes on with its token for
//! hours after the API server has ceased to take it.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use kube::config::AuthInfo;
use tower::{BoxError, Layer, Service};

/// How long a token is used before the file is looked at again. A kubelet writes a new one when a fifth of its time is left.
const USED: Duration = Duration::from_secs(10);

/// There is no token to send.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error(
        "the token file {path:?} cannot be read: {cause}; does the pod mount its service account's token?"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// What is in the file is no token.
    #[error("the token file {0:?} holds no token; is it the right file?")]
    NoToken(PathBuf),
}

/// The token in a file. Clones are the same.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: Arc<PathBuf>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// As the header has it.
    header: Option<HeaderValue>,
    /// When the file was read; not where the server has refused what was in it since.
    read: Option<Instant>,
}

impl TokenFile {
    /// The file of that user, where a file is what the user is known by.
    pub fn of(user: &AuthInfo) -> Option<Self> {
        let has_password = user.username.is_some() && user.password.is_some();
        if user.token.is_some() || user.auth_provider.is_some() || has_password {
            return None;
        }
        user.token_file.as_deref().map(Self::new)
    }

    fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Arc::new(path.into()),
            known: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The header with the token. One that was read before stands in for a file that cannot be read at present.
    fn header(&self) -> Result<HeaderValue, TokenError> {
        let mut known = self.known();
        if known.read.is_none_or(|read| read.elapsed() >= USED) {
            match self.read() {
                Ok(header) => known.header = Some(header),
                Err(error) if known.header.is_none() => return Err(error),
                Err(error) => tracing::debug!(%error, "the token before is used"),
            }
            known.read = Some(Instant::now());
        }
        let header = known.header.clone();
        header.ok_or_else(|| TokenError::NoToken(self.path.to_path_buf()))
    }

    /// The file is small and in memory: it is read where it is needed, without a thread for it.
    fn read(&self) -> Result<HeaderValue, TokenError> {
        let path = || self.path.to_path_buf();
        let text = std::fs::read_to_string(&*self.path).map_err(|cause| {
            let path = path();
            TokenError::Unreadable { path, cause }
        })?;
        let token = text.trim();
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        let mut header = header
            .ok()
            .filter(|_| !token.is_empty())
            .ok_or_else(|| TokenError::NoToken(path()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// The server did not take that one. Whoever asks next finds what is in the file by then.
    fn refused(&self, header: &HeaderValue) {
        let mut known = self.known();
        // It may have been read anew meanwhile.
        if known.header.as_ref() == Some(header) {
            known.read = None;
        }
    }
}

impl<S> Layer<S> for TokenFile {
    type Service = WithToken<S>;

    fn layer(&self, inner: S) -> WithToken<S> {
        WithToken {
            inner,
            token: self.clone(),
        }
    }
}

/// A service whose requests bear the token.
#[derive(Clone)]
pub struct WithToken<S> {
    inner: S,
    token: TokenFile,
}

impl<S, B> Service<Request<Body>> for WithToken<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let header = match self.token.header() {
            Ok(header) => header,
            Err(error) => return Box::pin(async { Err(error.into()) }),
        };
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let token = self.token.clone();
        let asking = self.inner.call(request);
        Box::pin(async move {
            let answer = asking.await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                token.refused(&header);
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn bearer(token: &TokenFile) -> String {
        let header = token.header().unwrap();
        assert!(header.is_sensitive(), "it would be shown in a log");
        header.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_token_is_read_anew_after_a_while_and_when_it_was_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = TokenFile::new(&path);
        let error = token.header().unwrap_err();
        assert!(matches!(error, TokenError::Unreadable { .. }), "{error}");
        fs::write(&path, "\n").unwrap();
        let error = token.header().unwrap_err();
        assert!(matches!(error, TokenError::NoToken(_)), "{error}");

        fs::write(&path, "first\n").unwrap();
        assert_eq!(bearer(&token), "Bearer first");
        fs::write(&path, "second").unwrap();
        assert_eq!(bearer(&token), "Bearer first", "it was read just now");
        let first = token.header().unwrap();
        token.refused(&first);
        assert_eq!(bearer(&token), "Bearer second");
        fs::write(&path, "third").unwrap();
        token.refused(&first);
        assert_eq!(bearer(&token), "Bearer second", "another was refused");
        token.known().read = Instant::now().checked_sub(USED);
        assert_eq!(bearer(&token), "Bearer third");

        // Away for a moment, or in the middle of being written.
        for broken in [None, Some(""), Some("two\nlines")] {
            fs::remove_file(&path).unwrap();
            broken
                .map_or(Ok(()), |text| fs::write(&path, text))
                .unwrap();
            token.known().read = None;
            assert_eq!(bearer(&token), "Bearer third");
            fs::write(&path, "third").unwrap();
        }
    }

    #[test]
    fn what_goes_before_a_file_is_left_to_the_library() {
        let user = |text: &str| serde_json::from_str::<AuthInfo>(text).unwrap();
        let file = r#""tokenFile": "/token""#;
        assert!(TokenFile::of(&user(&format!("{{{file}}}"))).is_some());
        for other in [
            "{}".to_owned(),
            format!(r#"{{{file}, "token": "inline"}}"#),
            format!(r#"{{{file}, "username": "a", "password": "b"}}"#),
            format!(r#"{{{file}, "auth-provider": {{"name": "oidc", "config": {{}}}}}}"#),
        ] {
            assert!(TokenFile::of(&user(&other)).is_none(), "{other}");
        }
    }
}
