//! A fault that lasts is told once, not with each request that meets it.

/// What was told last.
#[derive(Debug, Default)]
pub struct Told(Option<String>);

impl Told {
    /// Whether this fault is to be told: it is another than before.
    pub fn is_news(&mut self, fault: &str) -> bool {
        let is_news = self.0.as_deref() != Some(fault);
        if is_news {
            self.0 = Some(fault.to_owned());
        }
        is_news
    }

    /// There is no fault. Says whether there was one.
    pub fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_when_it_comes_and_when_it_becomes_another() {
        let mut told = Told::default();
        let faults = ["away", "away", "forbidden", "away"];
        assert_eq!(
            faults.map(|fault| told.is_news(fault)),
            [true, false, true, true]
        );
        assert!(told.is_over() && !told.is_over());
        assert!(told.is_news("away"));
    }
}
