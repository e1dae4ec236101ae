//! Renders `docs/advisories.md`, the page of what is known of released versions, from the data of the judgement.

use readiness::assess::advisories::{Advisory, Form, Range, minors, products};

/// The path of the page, relative to the project's folder.
pub const PAGE: &str = "docs/advisories.md";
const TEMPLATE: &str = include_str!("advisories.md.in");

/// Renders the page.
pub fn advisories() -> String {
    let (mut advisories, mut supports) = (String::new(), String::new());
    for product in products() {
        let name = format!("`{}`", product.name);
        let mut of_driver = Vec::new();
        for advisory in &product.advisories {
            let Advisory {
                code,
                happens,
                remedy,
                source,
                ..
            } = advisory;
            let what = format!("{name}: [`{code}`](findings.md#{})", code.to_lowercase());
            let happens = happens.trim_start_matches([',', ' ']);
            let happens = happens.trim_start_matches("with which ");
            let happens = happens.trim_start_matches("which ");
            let cells = [&what, &versions(advisory), &place(advisory), happens];
            let cells = cells.join(" | ");
            let row = ["| ", &cells, " ([source](", source, ")) | ", remedy, " |\n"];
            advisories.extend(row);
        }
        for support in &product.supports {
            let versions = minors(&support.versions).replace(" to ", "–v");
            let kubernetes = minors(&support.kubernetes).replace(" to ", "–");
            of_driver.push(format!("v{versions}: {kubernetes}"));
        }
        if !of_driver.is_empty() {
            supports.extend(["| ", &name, " | ", &of_driver.join("<br>"), " |\n"]);
        }
    }
    let page = TEMPLATE.replace("{advisories}", &advisories);
    page.replace("{supports}", &supports)
}

fn versions(advisory: &Advisory) -> String {
    let versions: Vec<String> = advisory.versions.iter().map(range).collect();
    versions.join("; ")
}

fn place(advisory: &Advisory) -> String {
    let form = advisory.form.map(|form| match form {
        Form::HostProcess => "HostProcess".to_owned(),
        Form::CSIProxy => "not HostProcess".to_owned(),
    });
    let windows = advisory.windows.as_ref();
    let windows = windows.map(|it| format!("Windows {}", range(it)));
    let kubernetes = (advisory.kubernetes.as_ref()).map(|it| format!("Kubernetes {}", minors(it)));
    let places = [form, windows, advisory.platform.clone(), kubernetes];
    let places: Vec<String> = places.into_iter().flatten().collect();
    places.join(", ")
}

fn range(range: &Range) -> String {
    match (&range.from, &range.before) {
        (Some(from), Some(before)) => format!(">={from} <{before}"),
        (Some(from), None) => format!(">={from}"),
        (None, Some(before)) => format!("<{before}"),
        (None, None) => "all".to_owned(),
    }
}
