//! Metrics as Prometheus reads them.

use std::collections::BTreeSet;

/// A series and its value: name, labels and value.
type ExpectedValue<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

/// The text of one scrape.
pub(crate) struct Scrape(pub(crate) String);

impl Scrape {
    /// The lines of series with this name that have all these labels.
    pub(crate) fn series<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a str> {
        let of_name = move |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let has_labels = move |line: &&str| {
            labels.iter().all(|(key, value)| {
                let label = format!("{key}=\"{value}\"");
                line.contains(&format!("{{{label}")) || line.contains(&format!(",{label}"))
            })
        };
        self.0.lines().filter(of_name).filter(has_labels)
    }

    /// The number of series with this name and these labels.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.series(name, labels).count()
    }

    /// The sum of the series with this name and these labels; `None` where there are none.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let values = self.series(name, labels).map(|line| {
            let (_, value) = line.rsplit_once(' ').expect("a value");
            value.parse::<f64>().expect("a number")
        });
        values.reduce(|sum, value| sum + value)
    }

    /// The value of a label of the first series with this name.
    pub(crate) fn label(&self, name: &str, label: &str) -> Option<String> {
        let line = self.series(name, &[]).next()?;
        let (_, rest) = line.split_once(&format!("{label}=\""))?;
        let (value, _) = rest.split_once('"')?;
        Some(value.to_owned())
    }

    /// The families that have series.
    pub(crate) fn families(&self) -> BTreeSet<String> {
        let types = self.0.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names = types.filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    }

    /// Asserts a value for each series of a table: name, labels and value.
    pub(crate) fn assert_values(&self, expected: &[ExpectedValue<'_>]) {
        for (name, labels, value) in expected {
            assert_eq!(
                self.value(name, labels),
                Some(*value),
                "{name}{labels:?} in\n{}",
                self.picture(name)
            );
        }
    }

    /// The lines of one family, for failing tests.
    pub(crate) fn picture(&self, name: &str) -> String {
        let lines: Vec<&str> = self.0.lines().filter(|line| line.contains(name)).collect();
        lines.join("\n")
    }
}
