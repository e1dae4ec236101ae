//! Decodes a Lease, and decides what a candidate does next.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::LEASE_SECONDS;

/// What to do with the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Replace it with this, provided that no other client has written it meanwhile.
    Write(LeaseSpec),
    /// Another candidate holds it: wait at least until `free_at`.
    Wait {
        /// Who holds it.
        holder: String,
        /// When it expires, unless it is observed to be renewed before.
        free_at: Duration,
    },
}

/// What a candidate has observed of a Lease that another candidate holds, and when. Clocks of others may be wrong, so a
/// lease expires after its duration since the last observed change, whatever times it contains.
#[derive(Debug, Default)]
pub struct Record(Option<(LeaseSpec, Duration)>);

impl Record {
    /// Decides what to do with a Lease, or with a missing one. `now` is monotonic, with any starting point.
    pub fn next(&mut self, spec: Option<&LeaseSpec>, identity: &str, now: Duration) -> Decision {
        let holder = spec.and_then(holder);
        if let (Some(spec), Some(holder)) = (spec, holder.filter(|&holder| holder != identity)) {
            let seen = match &self.0 {
                Some((before, seen)) if before == spec => *seen,
                _ => {
                    self.0 = Some((spec.clone(), now));
                    now
                }
            };
            let free_at = seen + lasts(spec);
            if now < free_at {
                let holder = holder.to_owned();
                return Decision::Wait { holder, free_at };
            }
        }
        Decision::Write(ours(spec, identity, Timestamp::now()))
    }
}

/// Returns the holder; `None` if the lease was released.
fn holder(spec: &LeaseSpec) -> Option<&str> {
    let holder = spec.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

/// Returns the duration that the holder has set, or ours if there is none.
fn lasts(spec: &LeaseSpec) -> Duration {
    let said = spec.lease_duration_seconds.unwrap_or_default();
    let said = u64::try_from(said).ok().filter(|seconds| *seconds > 0);
    Duration::from_secs(said.unwrap_or(LEASE_SECONDS.into()))
}

/// Returns the Lease with this candidate as its holder.
fn ours(before: Option<&LeaseSpec>, identity: &str, now: Timestamp) -> LeaseSpec {
    let held = before.filter(|before| holder(before) == Some(identity));
    let acquired = held.and_then(|held| held.acquire_time.clone());
    let so_far = before.map(|before| before.lease_transitions.unwrap_or_default());
    let transitions = so_far.map_or(0, |so_far| so_far.saturating_add(i32::from(held.is_none())));
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(LEASE_SECONDS.into()),
        acquire_time: acquired.or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        // Leave fields of coordinated leader election as they are.
        ..before.cloned().unwrap_or_default()
    }
}

/// Returns the Lease as released by its holder, so that any candidate may acquire it at once. The same as client-go writes.
pub fn released(held: &LeaseSpec) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(now.clone()),
        renew_time: Some(now),
        ..held.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: Duration = Duration::from_secs(1_000);

    fn next(record: &mut Record, spec: Option<&LeaseSpec>, now: Duration) -> Decision {
        record.next(spec, "us", now)
    }

    fn held_by(holder: &str, renewed: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(20),
            acquire_time: Some(MicroTime("2026-01-01T00:00:00Z".parse().unwrap())),
            renew_time: Some(MicroTime(renewed.parse().unwrap())),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    fn written(decision: Decision) -> LeaseSpec {
        match decision {
            Decision::Write(spec) => spec,
            Decision::Wait { holder, free_at } => panic!("waits for {holder} until {free_at:?}"),
        }
    }

    fn waits_until(decision: &Decision) -> Duration {
        match decision {
            Decision::Write(spec) => panic!("writes {spec:?}"),
            Decision::Wait { holder, free_at } => {
                assert_eq!(holder, "them");
                *free_at
            }
        }
    }

    #[test]
    fn a_lease_that_is_not_there_or_was_released_is_taken_at_once() {
        let first = written(next(&mut Record::default(), None, START));
        assert_eq!(first.holder_identity.as_deref(), Some("us"));
        assert_eq!(first.lease_duration_seconds, Some(15));
        assert_eq!(first.lease_transitions, Some(0));
        assert_eq!(first.acquire_time, first.renew_time);
        let held = held_by("them", "2026-01-01T00:00:10Z");
        let released = released(&held);
        assert_eq!(released.lease_duration_seconds, Some(1));
        assert!(released.acquire_time > held.acquire_time);
        assert!(released.renew_time > held.renew_time);
        let taken = written(next(&mut Record::default(), Some(&released), START));
        assert_eq!(taken.holder_identity.as_deref(), Some("us"));
        assert_eq!(taken.lease_transitions, Some(4));
        let empty = LeaseSpec::default();
        let taken = written(next(&mut Record::default(), Some(&empty), START));
        assert_eq!(taken.lease_transitions, Some(1));
    }

    #[test]
    fn anothers_lease_is_left_alone_for_its_time_after_it_was_seen_to_change() {
        let mut record = Record::default();
        // Expired long ago by its own times: its holder's clock may be wrong.
        let spec = held_by("them", "2001-01-01T00:00:00Z");
        assert_eq!(
            waits_until(&next(&mut record, Some(&spec), START)),
            START + SECOND * 20
        );
        let almost = START + Duration::new(19, 999_999_999);
        assert_eq!(
            waits_until(&next(&mut record, Some(&spec), almost)),
            START + SECOND * 20
        );
        // Renewed at the last moment: the duration begins again.
        let renewed = held_by("them", "2001-01-01T00:00:01Z");
        assert_eq!(
            waits_until(&next(&mut record, Some(&renewed), almost)),
            almost + SECOND * 20
        );
        let over = almost + SECOND * 20;
        let taken = written(next(&mut record, Some(&renewed), over));
        assert_eq!(taken.lease_transitions, Some(4));
        assert_ne!(taken.acquire_time, renewed.acquire_time);
    }

    #[test]
    fn a_lease_that_does_not_say_how_long_it_lasts_lasts_as_long_as_ours() {
        for said in [None, Some(0), Some(-1), Some(i32::MIN)] {
            let spec = LeaseSpec {
                lease_duration_seconds: said,
                ..held_by("them", "2026-01-01T00:00:00Z")
            };
            let decision = next(&mut Record::default(), Some(&spec), START);
            assert_eq!(waits_until(&decision), START + SECOND * 15, "{said:?}");
        }
    }

    #[test]
    fn our_own_lease_is_renewed_and_stays_the_same_term() {
        let before = held_by("us", "2026-01-01T00:00:00Z");
        let renewed = written(next(&mut Record::default(), Some(&before), START));
        assert_eq!(renewed.lease_transitions, Some(3));
        assert_eq!(renewed.acquire_time, before.acquire_time);
        assert!(renewed.renew_time > before.renew_time);
        let saturated = LeaseSpec {
            lease_transitions: Some(i32::MAX),
            ..held_by("", "2026-01-01T00:00:00Z")
        };
        let taken = written(next(&mut Record::default(), Some(&saturated), START));
        assert_eq!(taken.lease_transitions, Some(i32::MAX));
    }
}
