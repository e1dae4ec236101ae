//! The entry of the Windows Machine Config Operator's own services ConfigMap: compared, never written.

use std::collections::BTreeMap;

use protocol::command::{program, same_path};
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_SERVICE};
use serde::Deserialize;

use crate::index::ConfigMap;

/// What WMCO's ConfigMap for a node says of csi-proxy, in words; `None` where the ConfigMap cannot be seen, which is so
/// unless both operators share a namespace. Source of the name: WMCO, `windows-services-<version>`.
#[must_use]
pub fn wmco_entry(config_map: Option<&ConfigMap>, name: &str) -> Option<String> {
    let services = config_map?.data.get("services")?;
    Some(match entry(services) {
        Err(problem) => format!("its ConfigMap {name} does not parse: {problem}"),
        Ok(None) => format!("its ConfigMap {name} lists no service {CSI_PROXY_SERVICE}"),
        Ok(Some(command)) => {
            let expected =
                program(&command).is_some_and(|program| same_path(program, CSI_PROXY_EXE));
            let place = if expected {
                ""
            } else {
                ", from another place than usual"
            };
            format!("its ConfigMap {name} runs {command}{place}")
        }
    })
}

fn entry(services: &str) -> Result<Option<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        path: String,
    }
    let entries: Vec<Entry> = serde_json::from_str(services)?;
    let by_name: BTreeMap<String, String> = entries
        .into_iter()
        .map(|entry| (entry.name, entry.path))
        .collect();
    Ok(by_name.get(CSI_PROXY_SERVICE).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(services: &str) -> String {
        let map = ConfigMap {
            data: BTreeMap::from([("services".to_owned(), services.to_owned())]),
            ..ConfigMap::default()
        };
        wmco_entry(Some(&map), "windows-services-10.18.0").unwrap()
    }

    #[test]
    fn what_the_other_operator_runs_is_told() {
        let own = r#"[{"name":"csi-proxy","path":"C:\\k\\csi-proxy.exe -v=2","bootstrap":false,"priority":2}]"#;
        assert_eq!(
            told(own),
            r"its ConfigMap windows-services-10.18.0 runs C:\k\csi-proxy.exe -v=2"
        );
        assert!(told(&own.replace("k\\\\", "x\\\\")).contains("another place"));
        assert!(told("[]").contains("lists no service csi-proxy"));
        assert!(told("{").contains("does not parse"));
        assert_eq!(wmco_entry(None, "x"), None);
    }
}
