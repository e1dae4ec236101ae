//! A client of an API server that stores what is applied, for tests.

use std::sync::{Arc, Mutex};

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::client::answering::{answering, failure};

/// What the server was asked for, and what it refuses.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    applied: Vec<String>,
    refused: Vec<String>,
}

impl Server {
    /// Returns a client.
    pub fn client(&self) -> Client {
        let server = self.clone();
        answering(move |method, path, body| server.answer(method, path, body))
    }

    /// Returns the names of the objects whose status was applied, or refused, since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().applied)
    }

    /// Refuses statuses of these objects from now on.
    pub fn refuse(&self, names: &[&str]) {
        self.0.lock().unwrap().refused = names.iter().map(ToString::to_string).collect();
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let name = path.strip_suffix("/status");
        let name = name.and_then(|path| path.rsplit('/').next());
        let (Some(name), &Method::PATCH) = (name, method) else {
            // An event.
            return failure(404);
        };
        state.applied.push(name.to_owned());
        if state.refused.iter().any(|refused| refused == name) {
            return failure(500);
        }
        let mut object: Value = serde_json::from_slice(body).unwrap();
        state.version += 1;
        let version = state.version.to_string();
        object["metadata"] = json!({"name": name, "resourceVersion": version});
        object["spec"] = json!({});
        (200, object)
    }
}
