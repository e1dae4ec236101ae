//! Gathers the cluster's objects as files: those of the assessment, as they were then, and some for people.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use kube::Resource;
use kube::core::ApiResource;
use serde_json::Value;

use crate::api::GROUP;
use crate::check::Read;
use crate::gather::folder::{self, FolderError};
use crate::gather::redact;
use crate::objects::{GatheredKind, Received};
use crate::report::json_as_yaml;

/// The files of objects: one for each kind, and for each namespace where the kind has some.
pub struct Objects<'a> {
    root: &'a Path,
    /// The files of the list that is being read, and how many objects are in each.
    files: BTreeMap<String, u64>,
    /// What the judgement's kinds came to, for the record.
    pub kinds: Vec<GatheredKind>,
    /// How many objects were written.
    pub count: u64,
    /// What could not be read, in words.
    pub problems: Vec<String>,
    /// What stopped the writing. The reading goes on for the judgement.
    broken: Option<FolderError>,
}

impl<'a> Objects<'a> {
    /// No objects yet.
    #[must_use]
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

    /// What could not be written, if anything.
    pub fn check(&mut self) -> Result<(), FolderError> {
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Where nothing could be read of any kind that every cluster has, why not the first.
    #[must_use]
    pub fn nothing_read(&self) -> Option<String> {
        // Where our definitions are not there, they count as read.
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

    /// Writes what the judgement goes by.
    pub fn take(&mut self, read: &Read<'_>) {
        match *read {
            Read::Begin => self.begin(),
            Read::Ask(_) => {}
            Read::Page(resource, page) => self.put(resource, page),
            Read::End {
                resource,
                is_complete,
                problem,
            } => {
                let objects = self.end();
                let kind = &resource.kind;
                (self.problems).extend(problem.map(|problem| format!("{kind}: {problem}")));
                self.kinds.push(GatheredKind {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                    complete: is_complete,
                    objects,
                    problem: problem.map(str::to_owned),
                });
            }
        }
    }

    /// A list of a kind begins, or begins again.
    pub fn begin(&mut self) {
        for path in std::mem::take(&mut self.files).into_keys() {
            let removed = std::fs::remove_file(self.root.join(&path));
            let removed = removed.map_err(folder::not_written(self.root, &path));
            self.broken = self.broken.take().or(removed.err());
        }
    }

    /// Some objects of it.
    pub fn put<'b>(
        &mut self,
        resource: &ApiResource,
        objects: impl IntoIterator<Item = &'b Received>,
    ) {
        let objects: Vec<&Received> = objects.into_iter().collect();
        // The server lists by namespace.
        for objects in objects.chunk_by(|a, b| a.meta().namespace == b.meta().namespace) {
            if self.broken.is_none() {
                self.broken = self.append(resource, objects).err();
            }
        }
    }

    /// The list is over. How many objects it had.
    pub fn end(&mut self) -> u64 {
        let written = std::mem::take(&mut self.files).into_values().sum();
        self.count += written;
        written
    }

    /// Writes objects of one namespace, or of none.
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

/// As `oc adm inspect` lays out a cluster.
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

/// An item of a list: JSON, which every reader of YAML takes for the same. Of plain words and numbers that is not so:
/// `yes`, `012` and `1_000` are text in YAML 1.2, and something else in the YAML of kubectl.
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
            objects.take(&Read::Begin);
            objects.take(&Read::Page(&resource, &[pod(name)]));
        }
        objects.take(&Read::End {
            resource: &resource,
            is_complete: true,
            problem: None,
        });
        objects.check().unwrap();
        let found = read(root.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1["metadata"]["name"], "here");
        assert_eq!(objects.kinds[0].objects, 1);
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
