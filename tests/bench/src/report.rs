//! Prints the figures as a table.

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit: `ms`, `MB` (10⁶ bytes), `×` for a ratio of two figures of this run, …
    pub unit: String,
    /// The upper limit.
    pub bar: Option<f64>,
}

/// Builds a table of figures: `what => value, unit`, optionally followed by `at_most` and a bar.
macro_rules! rows {
    ($($what:expr => $value:expr, $unit:literal $(, $bar:ident $limit:expr)?;)*) => {
        vec![$($crate::report::Row::new($what, $value, $unit)$(.$bar($limit))?),*]
    };
}
pub(crate) use rows;

impl Row {
    /// Creates a figure without a bar.
    pub fn new(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            what: what.into(),
            value,
            unit: unit.to_owned(),
            bar: None,
        }
    }

    /// Sets an upper limit.
    pub fn at_most(self, bar: f64) -> Self {
        let bar = Some(bar);
        Self { bar, ..self }
    }

    fn line(&self) -> String {
        let number = |value: f64| match value.abs() {
            small if small < 10.0 => format!("{value:.3}"),
            middle if middle < 1000.0 => format!("{value:.1}"),
            _ => format!("{value:.0}"),
        };
        let (bar, met) = match self.bar {
            None => (String::new(), ""),
            Some(bar) => (
                format!("≤ {} {}", number(bar), self.unit),
                if self.value <= bar { "met" } else { "MISSED" },
            ),
        };
        let value = format!("{} {}", number(self.value), self.unit);
        format!("  {:<72} {value:>14} {bar:>14} {met}", self.what)
    }
}

/// Prints one measurement as a table.
pub fn print(measurement: &str, rows: &[Row]) {
    println!("{measurement}");
    for row in rows {
        println!("{}", row.line());
    }
}
