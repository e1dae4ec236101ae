//! Checks what no validator does: that the parts of the bundle match each other and their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use semver::Version;
use serde_yaml::Value;

use crate::project::{at, documents, later, list, newest, rendered, root, text};

type Rights = BTreeSet<[String; 4]>;

/// Splits rules into single permissions: group, resource, name, verb.
fn rights(rules: &[Value]) -> Rights {
    let mut rights = Rights::new();
    for rule in rules {
        let mut rule: BTreeMap<String, Vec<String>> = serde_yaml::from_value(rule.clone()).unwrap();
        let keys = ["apiGroups", "resources", "resourceNames", "verbs"];
        let [groups, resources, names, verbs] = keys.map(|key| {
            let words = rule.remove(key).unwrap_or_default();
            if words.is_empty() {
                vec!["*".to_owned()]
            } else {
                words
            }
        });
        assert!(rule.is_empty(), "{rule:?}");
        for group in &groups {
            for resource in &resources {
                for name in &names {
                    let of_verb = |verb| [group, resource, name, verb].map(Clone::clone);
                    rights.extend(verbs.iter().map(of_verb));
                }
            }
        }
    }
    rights
}

#[test]
fn the_rights_are_those_of_the_manifests_neither_more_nor_fewer() {
    let rbac = documents("manifests/rbac.yaml");
    let (_, csv) = rendered(&newest());
    for (kind, key) in [
        ("Role", "spec/install/spec/permissions"),
        ("ClusterRole", "spec/install/spec/clusterPermissions"),
    ] {
        let manifest: Rights = rbac
            .iter()
            .filter(|object| text(object, "kind") == kind)
            .flat_map(|role| rights(list(role, "rules")))
            .collect();
        let mut bundle = Rights::new();
        for entry in list(&csv, key) {
            assert_eq!(
                text(entry, "serviceAccountName"),
                text(
                    &csv,
                    "spec/install/spec/deployments/0/spec/template/spec/serviceAccountName"
                )
            );
            bundle.extend(rights(list(entry, "rules")));
        }
        assert!(manifest.len() > 5, "{manifest:?}");
        assert_eq!(manifest, bundle, "{kind}");
    }
}

#[test]
fn the_deployment_is_that_of_the_manifests_with_the_image_of_the_release() {
    let mut release = later("7.0.0");
    release.image = "host:5000/some/operator@sha256:0f".to_owned();
    let (files, csv) = rendered(&release);
    let [deployment] = list(&csv, "spec/install/spec/deployments") else {
        panic!("not just one deployment");
    };
    let mut manifest = documents("manifests/deployment.yaml").remove(0);
    for container in manifest["spec"]["template"]["spec"]["containers"]
        .as_sequence_mut()
        .unwrap()
    {
        container["image"] = release.image.as_str().into();
    }
    assert_eq!(at(deployment, "name"), at(&manifest, "metadata/name"));
    assert_eq!(at(deployment, "label"), at(&manifest, "metadata/labels"));
    assert_eq!(at(deployment, "spec"), at(&manifest, "spec"));

    // The validators accept any resource requests.
    for container in list(deployment, "spec/template/spec/containers") {
        for resource in ["cpu", "memory"] {
            assert!(
                at(container, "resources/requests").get(resource).is_some(),
                "{resource}"
            );
        }
    }

    let related: Vec<&str> = list(&csv, "spec/relatedImages")
        .iter()
        .map(|related| text(related, "image"))
        .collect();
    let must_gather = "host:5000/some/operator-must-gather:7.0.0";
    assert_eq!(related, [release.image.as_str(), must_gather]);
    assert_eq!(
        text(&csv, "metadata/annotations/containerImage"),
        release.image
    );
    // A mirror must contain every image that is pulled.
    let mirrored = &files[Path::new("catalog/imageset-config.yaml")];
    let mirrored: Value = serde_yaml::from_str(mirrored).unwrap();
    let mirrored: Vec<&str> = list(&mirrored, "mirror/additionalImages")
        .iter()
        .map(|image| text(image, "name"))
        .collect();
    let bundle = "host:5000/some/operator-bundle:7.0.0";
    assert_eq!(mirrored, [&related[..], &[bundle]].concat());
    let kustomization = &files[Path::new("manifests/kustomization.yaml")];
    let kustomization: Value = serde_yaml::from_str(kustomization).unwrap();
    let image = at(&kustomization, "images/0");
    assert_eq!(text(image, "newName"), "host:5000/some/operator");
    assert_eq!(text(image, "digest"), "sha256:0f");
    assert_eq!(image.get("newTag"), None);
}

/// OpenShift before 4.13 mirrors only digests. Since 4.14 its console reads one annotation, before that the other.
#[test]
fn a_bundle_is_for_mirrors_where_all_of_its_images_have_a_digest() {
    let (tag, digest) = ("example.org/a:1", "example.org/a@sha256:0f");
    let must_gather = "example.org/must-gather@sha256:0e";
    for (image, must_gather, expected) in [
        (tag, None, "false"),
        (tag, Some(must_gather), "false"),
        (digest, None, "false"),
        (digest, Some("example.org/must-gather:1"), "false"),
        (digest, Some(must_gather), "true"),
    ] {
        let mut release = newest();
        release.image = image.to_owned();
        release.must_gather_image = must_gather.map(str::to_owned);
        let (_, csv) = rendered(&release);
        let annotation = |name: &str| at(&csv, "metadata/annotations").get(name).cloned();
        let is_for_mirrors = annotation("features.operators.openshift.io/disconnected");
        assert_eq!(
            is_for_mirrors,
            Some(expected.into()),
            "{image} {must_gather:?}"
        );
        let before = annotation("operators.openshift.io/infrastructure-features");
        let features = (expected == "true").then(|| r#"["disconnected"]"#.into());
        assert_eq!(before, features, "{image} {must_gather:?}");
        // oc starts the image in the annotation, and only related images are mirrored.
        let started = annotation("operators.openshift.io/must-gather-image").unwrap();
        let related = list(&csv, "spec/relatedImages").iter();
        let related: Vec<&str> = related.map(|related| text(related, "image")).collect();
        assert_eq!(related, [image, started.as_str().unwrap()]);
    }
    let mut release = newest();
    release.must_gather_image = Some("example.org/no-tag".to_owned());
    let error = bundler::render(&root(), &release).unwrap_err().to_string();
    assert!(error.contains("is not NAME:TAG"), "{error}");
}

#[test]
fn the_role_stays_in_the_namespace_of_the_operator() {
    let (_, csv) = rendered(&newest());
    let supported: Vec<&str> = list(&csv, "spec/installModes")
        .iter()
        .filter(|mode| mode["supported"].as_bool().unwrap())
        .map(|mode| text(mode, "type"))
        .collect();
    assert_eq!(supported, ["OwnNamespace"]);
    let secret_in_cluster = list(&csv, "spec/install/spec/clusterPermissions")
        .iter()
        .any(|entry| {
            rights(list(entry, "rules"))
                .iter()
                .any(|[_, resource, ..]| resource == "secrets" || resource == "*")
        });
    assert!(!secret_in_cluster);
}

#[test]
fn the_lowest_kubernetes_is_the_oldest_that_tests_run_on() {
    let (files, csv) = rendered(&newest());
    let lowest = Version::parse(text(&csv, "spec/minKubeVersion")).unwrap();
    let folders = std::fs::read_dir(root().join("tools")).unwrap();
    let names = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    let tested = names.filter_map(|name| {
        let version = name.strip_prefix("kubernetes-")?.to_owned();
        Version::parse(&format!("{version}.0")).ok()
    });
    assert_eq!(tested.min(), Some(lowest.clone()));
    // OpenShift 4.N is Kubernetes 1.(N + 13).
    let first_openshift = format!("v4.{}", lowest.minor - 13);
    let annotations: Value =
        serde_yaml::from_str(&files[Path::new("bundle/metadata/annotations.yaml")]).unwrap();
    let first = &annotations["annotations"]["com.redhat.openshift.versions"];
    assert_eq!(first.as_str(), Some(&*first_openshift));
}

#[test]
fn every_descriptor_names_a_field_of_its_definition() {
    let (files, csv) = rendered(&newest());
    let mut seen = 0;
    for owned in list(&csv, "spec/customresourcedefinitions/owned") {
        let name = text(owned, "name");
        let crd = files
            .iter()
            .filter(|(path, _)| path.starts_with("bundle/manifests"))
            .map(|(_, text)| serde_yaml::from_str::<Value>(text).unwrap())
            .find(|object| text(object, "metadata/name") == name)
            .unwrap();
        for (descriptors, part) in [("specDescriptors", "spec"), ("statusDescriptors", "status")] {
            let Some(descriptors) = owned.get(descriptors) else {
                continue;
            };
            for descriptor in descriptors.as_sequence().unwrap() {
                seen += 1;
                let path = text(descriptor, "path");
                let mut field = at(&crd, "spec/versions/0/schema/openAPIV3Schema").clone();
                for key in std::iter::once(part).chain(path.split('.')) {
                    field = at(&field, "properties")
                        .get(key)
                        .unwrap_or_else(|| panic!("{name} has no {part}.{path}"))
                        .clone();
                }
                let values = field.get("enum").and_then(Value::as_sequence);
                for choice in list(descriptor, "x-descriptors") {
                    let choice = choice.as_str().unwrap();
                    if let Some(choice) =
                        choice.strip_prefix("urn:alm:descriptor:com.tectonic.ui:select:")
                    {
                        assert!(values.unwrap().contains(&choice.into()), "{path}: {choice}");
                    }
                }
            }
        }
    }
    assert!(seen > 10, "{seen}");
}
