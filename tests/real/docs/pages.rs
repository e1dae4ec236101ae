//! Runs the commands of each page from top to bottom, each page in its own cluster.

use bundler::{Release, Releases};

use crate::docs::root;
use crate::docs::world::{Scene, World};

macro_rules! pages {
    ($($test:ident: $path:literal in $scene:expr;)+) => {
        /// The pages whose commands run here, and the scene that each starts with.
        pub const PAGES: &[(&str, Scene)] = &[$(($path, $scene)),+];

        $(
            #[test]
            fn $test() {
                follow($path, $scene);
            }
        )+
    };
}

pages! {
    the_readme_does_what_it_shows: "README.md" in Scene::Held;
    kubeadm_does_what_it_shows: "docs/install/kubeadm.md" in Scene::Bare;
    rancher_does_what_it_shows: "docs/install/rancher.md" in Scene::Rancher;
    clouds_do_what_they_show: "docs/install/clouds.md" in Scene::Cloud;
    air_gapped_clusters_do_what_they_show: "docs/install/air-gapped.md" in Scene::Objects;
    pipelines_do_what_they_show: "docs/ci.md" in Scene::Objects;
    hosts_are_prepared_as_the_page_shows: "docs/windows-hosts.md" in Scene::Objects;
    nodes_do_what_they_show: "docs/nodes.md" in Scene::Held;
    troubleshooting_does_what_it_shows: "docs/troubleshooting.md" in Scene::Held;
    checking_does_what_it_shows: "docs/check.md" in Scene::Objects;
    findings_do_what_they_show: "docs/findings.md" in Scene::Objects;
    security_does_what_it_shows: "docs/security.md" in Scene::Objects;
    policies_do_what_they_show: "docs/policies.md" in Scene::Objects;
    migration_does_what_it_shows: "docs/migration.md" in Scene::Objects;
    upgrading_does_what_it_shows: "docs/upgrade.md" in Scene::Objects;
    configuration_does_what_it_shows: "docs/configuration.md" in Scene::Objects;
    monitoring_does_what_it_shows: "docs/monitoring.md" in Scene::Objects;
    the_description_for_olm_does_what_it_shows: "manifests/olm/description.md" in Scene::Objects;
}

fn follow(path: &str, scene: Scene) {
    World::new(scene).follow_page(path);
}

#[test]
fn each_other_way_to_install_works() {
    let world = World::new(Scene::Empty);
    let labels = "{.metadata.labels}";
    let namespace = "namespace/openshift-windows-machine-config-operator";
    let before = world.get(namespace, labels);
    // The overlay of the page renames the image that a fresh clone has.
    let release = Release {
        image: "localhost/windows-storage-operator:0.1.0".to_owned(),
        ..Releases::read(root()).unwrap().newest().clone()
    };
    let mut files = bundler::render(root(), &release).unwrap();
    files.retain(|path, _| path.starts_with("manifests"));
    bundler::write(world.folder(), &files).unwrap();

    world.follow_page("docs/install/options.md");
    let image = "{.spec.template.spec.containers[0].image}";
    for namespace in ["storage", "windows-storage-operator"] {
        let deployment = format!("-n {namespace} deployment/windows-storage-operator");
        let image = world.get(&deployment, image);
        assert_eq!(image, "registry.example.com/windows-storage-operator:0.1.0");
    }
    assert_eq!(world.get(namespace, labels), before, "another owner's");
}

/// Both pages in one cluster: what the one installs, the other removes.
#[test]
fn on_openshift_it_is_installed_by_olm_and_removed_again() {
    let world = World::new(Scene::OpenShift);
    world.follow_page("docs/install/openshift.md");
    world.follow_page("docs/uninstall.md");
    let left = world.get(
        "customresourcedefinitions,namespaces",
        "{.items[*].metadata.name}",
    );
    for gone in ["windowsstorage.dev", " windows-storage-operator"] {
        assert!(!left.contains(gone), "{left}");
    }
}

#[test]
fn the_commands_of_the_page_work() {
    let world = World::new(Scene::Empty);
    world.follow_page("docs/drivers.md");
    let left = world.get("daemonsets -A", "{.items[*].metadata.name}");
    assert_eq!(left, "", "all that was applied is deleted");
}
