//! Checks what no validator does: that the parts of the bundle match each other and their sources.

use std::path::Path;

use serde_yaml::Value;

use crate::project::{at, documents, later, list, newest, rendered, root, text};

#[test]
fn the_rights_are_those_of_the_manifests_and_secrets_are_read_in_one_namespace_alone() {
    let rbac = documents("manifests/rbac.yaml");
    let (_, csv) = rendered(&newest());
    let account = "spec/install/spec/deployments/0/spec/template/spec/serviceAccountName";
    for (kind, key) in [
        ("Role", "spec/install/spec/permissions"),
        ("ClusterRole", "spec/install/spec/clusterPermissions"),
    ] {
        let roles = rbac.iter().filter(|object| text(object, "kind") == kind);
        let manifest: Vec<_> = roles.map(|role| at(role, "rules")).collect();
        let entries = list(&csv, key).iter();
        let bundle: Vec<_> = entries.clone().map(|entry| at(entry, "rules")).collect();
        assert!(!manifest.is_empty() && manifest == bundle, "{kind}");
        for entry in entries {
            assert_eq!(text(entry, "serviceAccountName"), text(&csv, account));
        }
        let words = serde_yaml::to_string(&bundle).unwrap();
        let reads_secrets = words.contains("secrets") || words.contains('*');
        assert_eq!(reads_secrets, kind == "Role", "{words}");
    }
    let modes = list(&csv, "spec/installModes").iter();
    let supported = modes.filter(|mode| at(mode, "supported").as_bool().unwrap());
    let supported: Vec<_> = supported.map(|mode| text(mode, "type")).collect();
    assert_eq!(supported, ["OwnNamespace"]);
}

#[test]
fn the_deployment_is_that_of_the_manifests_with_the_image_of_the_release() {
    let mut release = later("7.0.0");
    release.image = "host:5000/some/operator@sha256:0f".to_owned();
    let (files, csv) = rendered(&release);
    let yaml = |path: &str| serde_yaml::from_str::<Value>(&files[Path::new(path)]).unwrap();
    let deployment = at(&csv, "spec/install/spec/deployments/0");
    let mut manifest = documents("manifests/deployment.yaml").remove(0);
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = release.image.as_str().into();
    for (of_bundle, of_manifest) in [
        ("name", "metadata/name"),
        ("label", "metadata/labels"),
        ("spec", "spec"),
    ] {
        assert_eq!(at(deployment, of_bundle), at(&manifest, of_manifest));
    }
    // The validators accept any resource requests.
    let requests = "spec/template/spec/containers/0/resources/requests";
    for resource in ["cpu", "memory"] {
        assert!(at(deployment, requests).get(resource).is_some());
    }

    let names = |list: &[Value], key: &str| -> Vec<String> {
        let items = list.iter();
        items.map(|item| text(item, key).to_owned()).collect()
    };
    let related = names(list(&csv, "spec/relatedImages"), "image");
    let must_gather = "host:5000/some/operator-must-gather:7.0.0";
    assert_eq!(related, [&*release.image, must_gather]);
    let image = text(&csv, "metadata/annotations/containerImage");
    assert_eq!(image, release.image);
    // A mirror must contain every image that is pulled.
    let mirrored = yaml("catalog/imageset-config.yaml");
    let mirrored = names(list(&mirrored, "mirror/additionalImages"), "name");
    let bundle = "host:5000/some/operator-bundle:7.0.0";
    assert_eq!(mirrored, [&*release.image, must_gather, bundle]);
    let kustomization = yaml("manifests/kustomization.yaml");
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
        assert_eq!(is_for_mirrors, Some(expected.into()), "{image}");
        let before = annotation("operators.openshift.io/infrastructure-features");
        let features = (expected == "true").then(|| r#"["disconnected"]"#.into());
        assert_eq!(before, features, "{image}");
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
fn every_descriptor_names_a_field_of_its_definition() {
    let (files, csv) = rendered(&newest());
    let mut seen = 0;
    for owned in list(&csv, "spec/customresourcedefinitions/owned") {
        let name = text(owned, "name");
        let crds = files
            .iter()
            .filter(|(path, _)| path.starts_with("bundle/manifests"));
        let mut crds = crds.map(|(_, text)| serde_yaml::from_str::<Value>(text).unwrap());
        let crd = crds
            .find(|object| text(object, "metadata/name") == name)
            .unwrap();
        for (descriptors, part) in [("specDescriptors", "spec"), ("statusDescriptors", "status")] {
            let descriptors = owned.get(descriptors).and_then(Value::as_sequence);
            for descriptor in descriptors.into_iter().flatten() {
                seen += 1;
                let path = format!("{part}.{}", text(descriptor, "path"));
                let mut field = at(&crd, "spec/versions/0/schema/openAPIV3Schema");
                for key in path.split('.') {
                    field = &field["properties"][key];
                }
                assert!(!field.is_null(), "{name} has no {path}");
                for choice in list(descriptor, "x-descriptors") {
                    let choice = choice.as_str().unwrap();
                    let select = "urn:alm:descriptor:com.tectonic.ui:select:";
                    if let Some(choice) = choice.strip_prefix(select) {
                        let values = list(field, "enum");
                        assert!(values.contains(&choice.into()), "{path}: {choice}");
                    }
                }
            }
        }
    }
    assert!(seen > 10, "{seen}");
}
