//! What was sent to a node.

/// The files that were sent in one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Files of which all was acknowledged.
    pub files: u64,
    /// Files of which not all was.
    pub failed: u64,
    /// What was acknowledged of both.
    pub bytes: u64,
}

impl Sent {
    /// One more file came to that end.
    #[must_use]
    pub(super) fn and(self, is_whole: bool, bytes: usize) -> Self {
        Self {
            files: self.files + u64::from(is_whole),
            failed: self.failed + u64::from(!is_whole),
            bytes: self.bytes.saturating_add(bytes as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_of_a_torso_counts_as_bytes_and_not_as_a_file() {
        let sent = Sent::default().and(true, 100).and(false, 7);
        assert_eq!((sent.files, sent.failed, sent.bytes), (1, 1, 107));
    }
}
