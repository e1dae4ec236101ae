//! The operating system that a pod or template asks for.

use super::cluster::{
    Cluster, NAMESPACE, NODE, RUNTIME_CLASS, annotation, field, list, name, nonempty, text,
};
use serde_json::{Map, Value, json};

const OS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const BUILD: &str = "node.kubernetes.io/windows-build";
const OS_ID: &str = "node.openshift.io/os_id";
const OS_SKU: &str = "kubernetes.azure.com/os-sku";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The operating system asked for: `true` is Windows.
pub type Asked = Option<bool>;

/// Returns a node's operating system from its label, or else from its kubelet.
pub fn os(node: &Value) -> Option<&str> {
    text(node, &["metadata", "labels", "kubernetes.io/os"])
        .or_else(|| text(node, &["status", "nodeInfo", "operatingSystem"]))
        .filter(|os| !os.is_empty())
}

fn runs(node: &Value) -> Asked {
    os(node).map(|os| os == "windows")
}

pub fn asks(cluster: Cluster<'_>, of: &str, spec: &Value, is_template: bool) -> Asked {
    let named = names(spec)
        .or_else(|| named_by_labels(&with_namespace(cluster, of, spec)))
        .or_else(|| named_by_terms(spec));
    if named.is_some() {
        return named;
    }
    let class = nonempty(spec, &["runtimeClassName"])
        .and_then(|class| cluster.get(RUNTIME_CLASS, "", class))
        .and_then(|class| named_by_labels(&class["scheduling"]["nodeSelector"]));
    if class.is_some() {
        return class;
    }
    if is_template && let Some(node) = nonempty(spec, &["nodeName"]) {
        let known = cluster.get(NODE, "", node).map_or_else(
            || cluster.1.nodes.get(node).map(|gone| gone.system),
            |node| Some(runs(node)),
        );
        if let Some(Some(system)) = known {
            return Some(system);
        }
    }
    selected(cluster, &selection(cluster, of, spec)?)?
}

/// Returns what the spec's first two constraints ask for.
pub fn names(spec: &Value) -> Asked {
    named(text(spec, &["os", "name"])).or_else(|| named_by_labels(&spec["nodeSelector"]))
}

fn named_by_terms(spec: &Value) -> Asked {
    let answers: Vec<Asked> = terms(spec)?.iter().map(named_by_term).collect();
    let first = *answers.first()?;
    first.filter(|_| answers.iter().all(|answer| *answer == first))
}

/// Returns what a namespace's node selector asks for.
pub fn namespace_asks(cluster: Cluster<'_>, of: &str) -> Asked {
    named_by_labels(&with_namespace(cluster, of, &Value::Null))
}

/// Returns the namespace's node selector with the spec's own over it.
fn with_namespace(cluster: Cluster<'_>, of: &str, spec: &Value) -> Value {
    let mut labels = Map::new();
    let there = cluster.get(NAMESPACE, "", of);
    for key in [
        "openshift.io/node-selector",
        "scheduler.alpha.kubernetes.io/node-selector",
    ] {
        let noted = there
            .and_then(|there| annotation(there, key))
            .unwrap_or_default();
        for pair in noted.split(',') {
            if let Some((key, value)) = pair.split_once('=') {
                let one = |value: Value| json!({ key.trim(): value });
                let before = labels.get(key.trim()).cloned().map(one);
                if before.and_then(|before| named_by_labels(&before)) != Some(true) {
                    labels.insert(key.trim().to_owned(), value.trim().into());
                }
            }
        }
    }
    labels.extend(
        spec["nodeSelector"]
            .as_object()
            .cloned()
            .unwrap_or_default(),
    );
    labels.into()
}

fn named(os: Option<&str>) -> Asked {
    match os {
        Some("windows") => Some(true),
        Some("linux") => Some(false),
        _ => None,
    }
}

fn named_by_labels(selector: &Value) -> Asked {
    let value = |label: &str| text(selector, &[label]);
    let by_os = OS.map(|label| named(value(label)));
    let is_windows = by_os.contains(&Some(true))
        || value(BUILD).is_some()
        || value(OS_ID) == Some("Windows")
        || value(OS_SKU).is_some_and(|sku| sku.starts_with("Windows"));
    if is_windows {
        return Some(true);
    }
    by_os.contains(&Some(false)).then_some(false)
}

fn terms(spec: &Value) -> Option<&[Value]> {
    field(spec, &["affinity", "nodeAffinity", REQUIRED])?;
    Some(list(
        spec,
        &["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"],
    ))
}

fn named_by_term(term: &Value) -> Asked {
    let answers: Vec<Asked> = list(term, &["matchExpressions"])
        .iter()
        .map(named_by_expression)
        .collect();
    [Some(true), Some(false)]
        .into_iter()
        .find(|answer| answers.contains(answer))
        .flatten()
}

fn named_by_expression(expression: &Value) -> Asked {
    let key = text(expression, &["key"]).unwrap_or_default();
    let operator = text(expression, &["operator"]).unwrap_or_default();
    let values = list(expression, &["values"]);
    let has = |os: &str| values.iter().any(|value| value == os);
    let only = |os: &str| has(os) && values.iter().all(|value| value == os);
    match operator {
        "In" if OS.contains(&key) => {
            let windows = only("windows").then_some(true);
            windows.or_else(|| only("linux").then_some(false))
        }
        "NotIn" if OS.contains(&key) => match (has("linux"), has("windows")) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        },
        "In" if key == OS_ID => only("Windows").then_some(true),
        "In" if key == OS_SKU => {
            let is_windows = |value: &Value| value.as_str().unwrap().starts_with("Windows");
            (!values.is_empty() && values.iter().all(is_windows)).then_some(true)
        }
        "In" | "Exists" | "Gt" | "Lt" if key == BUILD => Some(true),
        _ => None,
    }
}

/// Returns the node selector, merged with those of namespace and RuntimeClass, and the terms; `None` if there are none.
pub fn selection(cluster: Cluster<'_>, of: &str, spec: &Value) -> Option<Value> {
    let own = with_namespace(cluster, of, spec);
    let class = nonempty(spec, &["runtimeClassName"])
        .and_then(|class| cluster.get(RUNTIME_CLASS, "", class))
        .map(|class| &class["scheduling"]["nodeSelector"]);
    let labels = [Some(&own), class];
    let labels: Map<String, Value> = labels
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .flat_map(Clone::clone)
        .collect();
    let terms = terms(spec);
    (!labels.is_empty() || terms.is_some()).then(|| json!({"labels": labels, "terms": terms}))
}

/// Returns the operating system of all matching nodes (`Some(None)` for several), or if none matches, the remembered one.
pub fn selected(cluster: Cluster<'_>, selection: &Value) -> Option<Asked> {
    let mut systems: Vec<bool> = cluster
        .of(NODE)
        .filter(|node| matches(selection, node))
        .filter_map(runs)
        .collect();
    systems.sort_unstable();
    systems.dedup();
    match systems[..] {
        [] => cluster.1.selections.get(&selection.to_string()).copied(),
        [system] => Some(Some(system)),
        _ => Some(None),
    }
}

fn matches(selection: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let mut wanted = selection["labels"].as_object().into_iter().flatten();
    wanted.all(|(key, value)| labels[key] == *value)
        && selection["terms"].as_array().is_none_or(|terms| {
            terms.iter().any(|term| {
                let expressions = list(term, &["matchExpressions"]);
                let fields = list(term, &["matchFields"]);
                expressions.len() + fields.len() > 0
                    && expressions.iter().all(|wanted| {
                        let key = text(wanted, &["key"]).unwrap_or_default();
                        meets(wanted, labels[key].as_str())
                    })
                    && fields.iter().all(|wanted| {
                        wanted["key"] == "metadata.name" && meets(wanted, Some(name(node)))
                    })
            })
        })
}

fn meets(wanted: &Value, value: Option<&str>) -> bool {
    let values: Vec<&str> = list(wanted, &["values"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let numbers = || number(value).zip(number(values.first().copied()));
    match text(wanted, &["operator"]).unwrap_or_default() {
        "In" => value.is_some_and(|value| values.contains(&value)),
        "NotIn" => value.is_none_or(|value| !values.contains(&value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, than)| value > than),
        "Lt" => numbers().is_some_and(|(value, than)| value < than),
        _ => false,
    }
}

/// Returns whether a placement asks for nothing only because no node has what it selects, or ever had.
pub fn is_nowhere(cluster: Cluster<'_>, of: &str, spec: &Value, is_template: bool) -> bool {
    asks(cluster, of, spec, is_template).is_none()
        && selection(cluster, of, spec).is_some_and(|it| selected(cluster, &it).is_none())
}

/// Whether any node runs Windows, including ignored ones.
pub fn any_windows(cluster: Cluster<'_>) -> bool {
    cluster.of(NODE).any(|node| runs(node) == Some(true))
}
