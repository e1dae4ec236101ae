//! Writes the cluster's objects to files: those that the assessment uses, unchanged except for redaction, and others for
//! people.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use kube::Resource;
use kube::core::ApiResource;
use serde_json::Value;

use crate::api::GROUP;
use crate::gather::folder::{self, FolderError};
use crate::gather::redact;
use crate::index::AnyTable;
use crate::objects::{GatheredKind, Received};
use crate::report::json_as_yaml;

/// The object files: one per kind, and per namespace for namespaced kinds.
pub struct Objects<'a> {
    root: &'a Path,
    /// The files of the current list, with the number of objects in each.
    files: BTreeMap<String, u64>,
    /// The results per kind of the assessment, for the record.
    pub kinds: Vec<GatheredKind>,
    /// The number of objects written.
    pub count: u64,
    /// What could not be read.
    pub problems: Vec<String>,
    /// The error that stopped writing. Reading continues for the assessment.
    broken: Option<FolderError>,
}

impl<'a> Objects<'a> {
    /// Creates an empty set.
    pub fn new(root: &'a Path) -> Self {
        Self {
            root,
            files: BTreeMap::new(),
            kinds: Vec::new(),
            count: 0,
            problems: Vec::new(),
            broken: None,
        }
    }

    /// Returns the error that stopped writing, if any.
    pub fn check(&mut self) -> Result<(), FolderError> {
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Returns the first kind's error if no object of any built-in kind could be read.
    pub fn nothing_read(&self) -> Option<String> {
        // Our own kinds count as read if their CRDs are not installed.
        let kinds = self.kinds.iter();
        let mut kinds = kinds.filter(|kind| !kind.api_version.starts_with(GROUP));
        let is_read = |kind: &GatheredKind| kind.complete || kind.objects > 0;
        if kinds.clone().any(is_read) {
            return None;
        }
        let first = kinds.next()?;
        let problem = first.problem.as_deref().unwrap_or("not read");
        Some(format!("{}: {problem}", first.kind))
    }

    /// Starts or restarts the list of a kind.
    pub fn begin(&mut self) {
        for path in std::mem::take(&mut self.files).into_keys() {
            let removed = std::fs::remove_file(self.root.join(&path));
            let removed = removed.map_err(folder::not_written(self.root, &path));
            self.broken = self.broken.take().or(removed.err());
        }
    }

    /// Writes some objects of the list.
    pub fn put<'b>(
        &mut self,
        resource: &ApiResource,
        objects: impl IntoIterator<Item = &'b Received>,
    ) {
        let objects: Vec<&Received> = objects.into_iter().collect();
        // The server sorts lists by namespace.
        for objects in objects.chunk_by(|a, b| a.meta().namespace == b.meta().namespace) {
            if self.broken.is_none() {
                self.broken = self.append(resource, objects).err();
            }
        }
    }

    /// Finishes the list. Returns the number of its objects.
    pub fn end(&mut self) -> u64 {
        let written = std::mem::take(&mut self.files).into_values().sum();
        self.count += written;
        written
    }

    /// Finishes the list of a kind that the assessment uses, with how it was read.
    pub fn end_kind(&mut self, resource: &ApiResource, read: &dyn AnyTable) {
        let (problem, kind) = (read.problem(), &resource.kind);
        (self.problems).extend(problem.map(|problem| format!("{kind}: {problem}")));
        let gathered = GatheredKind {
            api_version: resource.api_version.clone(),
            kind: kind.clone(),
            complete: read.is_complete(),
            objects: self.end(),
            problem: problem.map(str::to_owned),
        };
        self.kinds.push(gathered);
    }

    /// Writes objects of one namespace, or cluster-scoped objects.
    fn append(&mut self, resource: &ApiResource, objects: &[&Received]) -> Result<(), FolderError> {
        let first = objects.first().map(|object| object.meta());
        let path = path(resource, first.and_then(|meta| meta.namespace.as_deref()));
        let (mut file, mut text) = if self.files.contains_key(&path) {
            let file = OpenOptions::new().append(true).open(self.root.join(&path));
            let file = file.map_err(folder::not_written(self.root, &path))?;
            (BufWriter::new(file), String::new())
        } else {
            let (version, kind) = (&resource.api_version, &resource.kind);
            let head = format!("apiVersion: {version}\nkind: {kind}List\nitems:\n");
            (folder::create(self.root, &path)?, head)
        };
        let mut write = || {
            for object in objects {
                text += &item(resource, object)?;
                file.write_all(text.as_bytes())?;
                text.clear();
            }
            file.flush()
        };
        write().map_err(folder::not_written(self.root, &path))?;
        *self.files.entry(path).or_default() += objects.len() as u64;
        Ok(())
    }
}

/// Returns the file's path in the layout of `oc adm inspect`.
fn path(resource: &ApiResource, namespace: Option<&str>) -> String {
    let group = match &*resource.group {
        "" => "core",
        group => group,
    };
    let file = format!("{group}/{}.yaml", resource.plural);
    match namespace {
        Some(namespace) => format!("namespaces/{}/{file}", folder::file_name(namespace)),
        None => format!("cluster-scoped-resources/{file}"),
    }
}

/// Formats an item of a list as JSON, which all YAML parsers read alike. Plain YAML scalars are ambiguous: `yes`, `012`
/// and `1_000` are strings in YAML 1.2, but not in kubectl's YAML.
fn item(resource: &ApiResource, object: &Received) -> io::Result<String> {
    let mut value: Value = serde_json::from_str(object.text())?;
    redact::object(&resource.kind, &mut value);
    value["apiVersion"] = resource.api_version.clone().into();
    value["kind"] = resource.kind.clone().into();
    let text = json_as_yaml(&value)?;
    Ok(format!("- {}\n", text.trim_end().replace('\n', "\n  ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::files;
    use crate::objects::kind;

    fn received(value: &Value) -> Received {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn pod_resource() -> ApiResource {
        kind("v1", "Pod").unwrap().resource.clone()
    }

    fn read(root: &Path) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        let sources = [files::Source::from(root.to_owned())];
        let outcome = files::read(&sources, &|_, _| true, &mut |_| (), &mut |object| {
            found.push((object.origin.source_name().to_owned(), object.value));
            Ok(())
        });
        assert!(outcome.unread.is_empty() && outcome.left_out.is_empty());
        found
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let mut objects = Objects::new(root.path());
        let mut strange: Vec<&str> =
            "yes ~ 1e3 0x1f 0o17 012 1_000 = << # !x &a *a 2026-01-01 ' é null 1. .inf NaN"
                .split(' ')
                .collect();
        strange.extend([
            "- a", "a: b", "a #b", "", " ", "a\nb\n", "a\r\nb", "\t", "\"",
        ]);
        strange.extend(["\u{1b}[2J", "\u{202e}x", "\u{feff}\u{e0041}"]);
        let pod = |namespace: &str, name: &str| json!({"metadata": {"name": name, "namespace": namespace, "labels": {"012": "yes"}}, "spec": {"a": strange, "n": 1.5, "m": -7, "t": true, "z": null}});
        let pods = [pod("a", "one"), pod("b", "two"), pod("a", "three")];
        objects.begin();
        objects.put(&pod_resource(), &pods.each_ref().map(received));
        objects.end();
        objects.check().unwrap();
        assert_eq!(objects.count, 3);
        let found = read(root.path());
        assert_eq!(found.len(), 3);
        for (place, value) in found {
            let namespace = value["metadata"]["namespace"].as_str().unwrap().to_owned();
            assert!(
                place.ends_with(&format!("namespaces/{namespace}/core/pods.yaml")),
                "{place}"
            );
            let written = pods
                .iter()
                .find(|pod| pod["metadata"] == value["metadata"])
                .unwrap();
            assert_eq!(value["spec"], written["spec"]);
            assert_eq!(value["kind"], "Pod");
        }
    }

    #[test]
    fn a_list_that_begins_again_leaves_nothing_of_the_first() {
        let root = tempfile::tempdir().unwrap();
        let mut objects = Objects::new(root.path());
        let pod = |name: &str| received(&json!({"metadata": {"name": name, "namespace": "a"}}));
        let resource = pod_resource();
        for name in ["gone", "here"] {
            objects.begin();
            objects.put(&resource, &[pod(name)]);
        }
        let written = objects.end();
        objects.check().unwrap();
        let found = read(root.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1["metadata"]["name"], "here");
        assert_eq!(written, 1);
    }

    #[test]
    fn a_folder_that_is_gone_is_reported_once_and_the_reading_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let gone = root.path().join("gone");
        let mut objects = Objects::new(&gone);
        let pod = received(&json!({"metadata": {"name": "p", "namespace": "a"}}));
        objects.put(&pod_resource(), [&pod]);
        assert!(objects.check().is_err());
        assert!(!gone.exists());
    }
}
