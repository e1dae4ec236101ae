//! What the status of `WindowsStorage` shall say, and whether it may differ from what it says.

use crate::api::{SETTINGS_NAME, WindowsStorage, WindowsStorageStatus};
use crate::index::Cluster;
use crate::node::NodePlan;
use crate::run::decide::wording::Told;
use crate::run::decide::{Decisions, News, Said};
use crate::status::{ClusterInputs, cluster_status, with_verdict};

impl Decisions {
    pub(super) fn settings(
        &mut self,
        cluster: &Cluster,
        news: &News<'_>,
        told: &Told,
        reconfigured: bool,
    ) -> Option<(Option<WindowsStorage>, WindowsStorageStatus)> {
        let windows_nodes = self.assessment.windows_nodes().len();
        let said = Said {
            verdict: told.verdict.clone(),
            counts: [windows_nodes, self.ready.len(), told.blocking],
            rollout: self.rollout.clone(),
            managed: self
                .plans
                .values()
                .any(|plan| !matches!(plan, NodePlan::External)),
            complete: self.complete,
            services_problem: news.services_problem.map(str::to_owned),
            gate: news.gate.clone(),
        };
        if self.said.as_ref() == Some(&said) && !reconfigured && !news.settings_unwritten {
            return None;
        }
        let previous = cluster.settings.get(SETTINGS_NAME).cloned();
        let before = previous
            .as_ref()
            .and_then(|object| object.status.clone())
            .unwrap_or_default();
        let when = (
            previous
                .as_ref()
                .and_then(|object| object.metadata.generation),
            news.now,
        );
        let [windows_nodes, ready_nodes, blocking] = said.counts;
        let status = if self.complete {
            let inputs = ClusterInputs {
                verdict: &told.verdict,
                blocking,
                windows_nodes,
                ready_nodes,
                managed: said.managed,
                rollout: (&said.rollout, &self.payload.csi_proxy.version),
                services: &self.services,
                services_problem: news.services_problem,
                gate: news.gate.as_ref(),
            };
            cluster_status(&before, cluster, &inputs, when)
        } else if cluster.settings.is_complete()
            && cluster
                .unread()
                .iter()
                .any(|unread| unread.problem.is_some())
        {
            // Something cannot be read, which may last: the verdict says so, and all else stays as it was last known.
            with_verdict(&before, &told.verdict, news.gate.as_ref(), when)
        } else {
            return None;
        };
        self.said = Some(said);
        Some((previous, status))
    }
}
