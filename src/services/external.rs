//! Reads, but never writes, the csi-proxy entry in the Windows Machine Config Operator's own services ConfigMap.

use protocol::command::{program, same_path};
use protocol::names::same_name;
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use serde::Deserialize;

use crate::index::ConfigMap;

/// Describes what WMCO's ConfigMap for a node says about csi-proxy; `None` if the ConfigMap is not visible, as is the
/// case unless both operators share a namespace. Source of the name: WMCO, `windows-services-<version>`.
pub fn wmco_entry(config_map: Option<&ConfigMap>, name: &str) -> Option<String> {
    let services = config_map?.data.get("services")?;
    Some(match entry(services) {
        Err(problem) => format!("its ConfigMap {name} does not parse: {problem}"),
        Ok(None) => format!("its ConfigMap {name} lists no service {CSI_PROXY_SERVICE}"),
        Ok(Some(command)) => {
            let place = match program(&command) {
                Some(program) if same_path(program, CSI_PROXY_EXE) => "",
                _ => ", from another place than usual",
            };
            format!("its ConfigMap {name} runs {command}{place}")
        }
    })
}

/// Returns the command of csi-proxy, if it is listed; of two entries, the last one counts.
fn entry(services: &str) -> Result<Option<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        path: String,
    }
    let entries: Vec<Entry> = serde_json::from_str(services)?;
    let mut last_first = entries.into_iter().rev();
    let ours = last_first.find(|entry| same_name(&entry.name, CSI_PROXY_SERVICE));
    Ok(ours.map(|entry| entry.path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn described(services: &str) -> String {
        let map = ConfigMap {
            data: BTreeMap::from([("services".to_owned(), services.to_owned())]),
            ..ConfigMap::default()
        };
        wmco_entry(Some(&map), "windows-services-10.18.0").unwrap()
    }

    #[test]
    fn what_the_other_operator_runs_is_described() {
        let own = r#"[{"name":"csi-proxy","path":"C:\\k\\csi-proxy.exe -v=2","bootstrap":false,"priority":2}]"#;
        assert_eq!(
            described(own),
            r"its ConfigMap windows-services-10.18.0 runs C:\k\csi-proxy.exe -v=2"
        );
        assert!(described(&own.replace("k\\\\", "x\\\\")).contains("another place"));
        assert_eq!(
            described(&own.replace("csi-proxy\"", "CSI-Proxy\"")),
            described(own)
        );
        assert!(described("[]").contains("lists no service csi-proxy"));
        assert!(described("{").contains("does not parse"));
        assert_eq!(wmco_entry(None, "x"), None);
    }
}
