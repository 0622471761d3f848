//! Parameters of the query protocol: a form whose names are paths, such as `Filter.1.Value.2`.

use crate::account::{Answer, Refusal};
use std::collections::BTreeMap;

/// A parameter with those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    value: Option<String>,
    below: BTreeMap<String, Params>,
}

impl Params {
    /// Reads a form.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut root = Self::default();
        for (name, value) in form_urlencoded::parse(body) {
            let mut at = &mut root;
            for part in name.split('.') {
                at = at.below.entry(part.to_owned()).or_default();
            }
            at.value = Some(value.into_owned());
        }
        root
    }

    /// The parameters below a name; none if it is not there.
    pub(super) fn below(&self, name: &str) -> &Self {
        static NONE: Params = Params {
            value: None,
            below: BTreeMap::new(),
        };
        self.below.get(name).unwrap_or(&NONE)
    }

    /// The text of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.below(name).value.as_deref()
    }

    /// The same as a text of its own.
    pub(super) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// A text that must be there.
    pub(super) fn required(&self, name: &str) -> Answer<&str> {
        self.text(name).ok_or_else(|| Refusal::missing(name))
    }

    /// Whether a flag is given and true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// A value that can be read from its text.
    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Refusal::invalid_value(name, text))
    }

    /// The items of a list, by number.
    pub(super) fn list(&self, name: &str) -> impl Iterator<Item = &Self> {
        let numbered = self.below(name).below.iter();
        let mut items: Vec<(u64, &Self)> = numbered
            .filter_map(|(number, item)| Some((number.parse().ok()?, item)))
            .collect();
        items.sort_by_key(|(number, _)| *number);
        items.into_iter().map(|(_, item)| item)
    }

    /// The texts of a list.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        self.list(name).filter_map(|item| item.value.clone()).collect()
    }

    /// All parameters by path.
    pub(super) fn flat(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        self.flatten("", &mut all);
        all
    }

    fn flatten(&self, path: &str, all: &mut BTreeMap<String, String>) {
        if let Some(value) = &self.value {
            all.insert(path.to_owned(), value.clone());
        }
        for (name, item) in &self.below {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            item.flatten(&path, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_and_lists_are_ordered_by_number() {
        let params =
            Params::read(b"Action=A&Filter.1.Name=x&Filter.1.Value.10=c&Filter.1.Value.2=b&DryRun=true&Count=7&Bad=x");
        let filter = params.list("Filter").next().unwrap();
        assert_eq!(filter.text("Name"), Some("x"));
        assert_eq!(filter.texts("Value"), ["b", "c"]);
        assert!(params.flag("DryRun") && !params.flag("Action"));
        assert_eq!(params.parsed::<u32>("Count"), Ok(Some(7)));
        assert_eq!(params.parsed::<u32>("Bad").unwrap_err().code, "InvalidParameterValue");
        assert_eq!(params.required("Name").unwrap_err().code, "MissingParameter");
        assert_eq!(params.flat()["Filter.1.Value.10"], "c");
    }
}
