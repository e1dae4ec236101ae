//! Claims, and the volumes that they are bound to.

use super::facts::{self, Claims};
use super::{Explanation, Subject};
use crate::assess::report::VolumeUse;
use crate::index::ObjectKey;

impl Subject<'_> {
    pub(super) fn claim(&self) -> Option<Explanation> {
        let rows: Vec<&VolumeUse> = self
            .report
            .volumes
            .iter()
            .filter(|row| {
                row.persistent_volume_claim.as_deref() == Some(self.name)
                    && *row.workload.namespace == *self.key.namespace
            })
            .collect();
        let claims = Claims::one(&self.key);
        let report = self.narrowed(&rows, &[], &claims);
        let claim = self.cluster.claims.get(&self.key);
        // One that is missing is asked about for a good reason.
        if claim.is_none() && rows.is_empty() && report.findings.is_empty() {
            return None;
        }
        Some(Explanation {
            subject: format!("persistentvolumeclaim {}", self.key),
            standing: self.standing(&report),
            facts: facts::of_claim(claim, &rows),
            report,
            lists_volumes: true,
        })
    }

    pub(super) fn volume(&self) -> Option<Explanation> {
        let rows = self.report.volumes.iter();
        let rows = rows.filter(|row| row.persistent_volume.as_deref() == Some(self.name));
        let rows: Vec<&VolumeUse> = rows.collect();
        let volume = self.cluster.volumes.get(self.name);
        if volume.is_none() && rows.is_empty() {
            return None;
        }
        let mut claims = self.cluster.claims.iter();
        let claim = claims.find(|(_, claim)| claim.volume_name.as_deref() == Some(self.name));
        let claim: Option<&ObjectKey> = claim.map(|(key, _)| key);
        let about = claim.map(Claims::one).unwrap_or_default();
        let report = self.narrowed(&rows, &[], &about);
        Some(Explanation {
            subject: format!("persistentvolume {}", self.name),
            standing: self.standing(&report),
            facts: facts::of_volume(claim, &rows),
            report,
            lists_volumes: true,
        })
    }
}
