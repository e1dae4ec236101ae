//! Notices that the API server's store is another one: a resourceVersion that goes back.
//!
//! The versions of one store only grow, so an answer with a smaller one comes from a store that was restored or replaced.
//! Watches from before then wait for versions that do not come, and what was read is of no use any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use tokio::sync::watch;

/// The highest resourceVersion that was seen of each collection, and of objects that are read alone. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Revisions {
    highest: Arc<Mutex<HashMap<String, u64>>>,
    went_back: watch::Sender<Option<WentBack>>,
}

/// The API server has answered from another store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the API server's store is another one: the resourceVersion of {of} went back from {before} to {now}, as after a \
     restore from a backup; everything has to be read anew"
)]
pub struct WentBack {
    /// The path of the collection or object.
    of: String,
    before: u64,
    now: u64,
}

impl Revisions {
    /// Notes a version of a collection or object, by its path; returns the highest. One that is no number is not compared.
    pub fn see(&self, of: &str, version: &str) -> Result<u64, WentBack> {
        let Ok(now) = version.parse() else {
            return Ok(self.highest(of));
        };
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = highest.entry(of.to_owned()).or_insert(now);
        if now < *known {
            let went_back = WentBack {
                of: of.to_owned(),
                before: *known,
                now,
            };
            self.went_back.send_replace(Some(went_back.clone()));
            return Err(went_back);
        }
        *known = now;
        Ok(now)
    }

    /// Notes the version of a list from its JSON. Those of one path begin one after the other.
    pub fn see_list(&self, of: &str, list: &[u8]) -> Result<u64, WentBack> {
        // What is no list fails where it is decoded.
        let version = serde_json::from_slice(list)
            .ok()
            .and_then(|Head { metadata }| metadata.resource_version);
        self.see(of, version.as_deref().unwrap_or_default())
    }

    /// Returns the highest version of a collection; 0 if none was seen.
    pub fn highest(&self, of: &str) -> u64 {
        let highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        highest.get(of).copied().unwrap_or_default()
    }

    /// Waits until a version has gone back, whoever has seen it.
    pub async fn went_back(&self) -> WentBack {
        let mut went_back = self.went_back.subscribe();
        let seen = went_back.wait_for(Option::is_some).await;
        match seen.ok().and_then(|seen| seen.clone()) {
            Some(went_back) => went_back,
            // The sender is in this.
            None => std::future::pending().await,
        }
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: ListMeta,
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_version_that_goes_back_is_of_another_store() {
        let revisions = Revisions::default();
        for (of, version, is_well) in [
            ("/pods", "7", true),
            ("/pods", "7", true),
            ("/nodes", "3", true),
            ("/pods", "12", true),
            ("/pods", "", true),
            ("/pods", "x", true),
            ("/pods", "9", false),
            ("/nodes", "4", true),
        ] {
            let seen = revisions.see(of, version);
            assert_eq!(seen.is_ok(), is_well, "{of} {version}");
        }
        assert_eq!(revisions.highest("/pods"), 12);
        let list = br#"{"items":[{"metadata":{"resourceVersion":"1"}}],"metadata":{"resourceVersion":"11"}}"#;
        let error = revisions.see_list("/pods", list).unwrap_err().to_string();
        assert!(error.contains("/pods went back from 12 to 11"), "{error}");
        assert!(revisions.see_list("/pods", b"<html>").is_ok());
    }

    #[tokio::test]
    async fn whoever_sees_a_version_go_back_ends_what_waits_for_that() {
        let (seen, waits) = (Revisions::default(), Revisions::default());
        let revisions = seen.clone();
        seen.see("/pods", "7").unwrap();
        let ended = |of: &Revisions| of.went_back().now_or_never();
        assert_eq!(ended(&revisions), None);
        let went_back = seen.see("/pods", "6").unwrap_err();
        assert_eq!(ended(&revisions), Some(went_back));
        assert_eq!(ended(&waits), None, "it has read another store");
    }
}
