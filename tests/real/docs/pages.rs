//! Runs the commands of each page from top to bottom, each page in its own cluster.

use crate::docs::blocks::page;
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
    the_quick_start_does_what_it_shows: "docs/quick-start.md" in Scene::Bare;
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
    let world = World::new(scene);
    for block in page(path).blocks {
        if !block.is_let_alone() {
            world.follow(&block);
        }
    }
}
