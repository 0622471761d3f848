//! Filters of describe calls, and their pages.

use super::refusal::{Answer, Refusal};
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;

/// Whether a text matches a pattern in which `*` stands for any text and `?` for any character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // The place after the last star, and how much of the text that star stands for.
    let mut star: Option<(usize, usize)> = None;
    let (mut at, mut read) = (0, 0);
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, read));
            }
            Some(wanted) if *wanted == '?' || text.get(read) == Some(wanted) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (at, read) = (after, taken + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|rest| *rest == '*')
}

/// Whether something passes all filters. `fields` gives its values for the name of a filter, `None` for a name that the call does not know.
pub(super) fn passes(filters: &[Filter], tags: &Tags, fields: impl Fn(&str) -> Option<Vec<String>>) -> Answer<bool> {
    for filter in filters {
        let values: Vec<String> = match filter.name.as_str() {
            "tag-key" => tags.keys().cloned().collect(),
            name => match name.strip_prefix("tag:") {
                Some(key) => tags.get(key).cloned().into_iter().collect(),
                None => fields(name)
                    .ok_or_else(|| Refusal::new("InvalidParameterValue", format!("The filter '{name}' is invalid")))?,
            },
        };
        let is_wanted = |value: &String| filter.values.iter().any(|pattern| matches(pattern, value));
        if !values.iter().any(is_wanted) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Which part of a list a call wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Most items; all if it is not given.
    pub max: Option<usize>,
    /// Where the page before ended.
    pub token: Option<String>,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// What asks for the next page; `None` on the last one.
    pub next: Option<String>,
}

/// What the tokens of pages begin with; the number of items before the page follows.
const TOKEN: &str = "page-after-";

impl PageRequest {
    /// The page of a list.
    pub(super) fn of<T>(&self, all: impl IntoIterator<Item = T>) -> Answer<Page<T>> {
        let before = match self.token.as_deref() {
            None => 0,
            Some(token) => token
                .strip_prefix(TOKEN)
                .and_then(|number| number.parse::<usize>().ok())
                .ok_or_else(|| Refusal::new("InvalidNextToken", "The token is not valid."))?,
        };
        let mut rest = all.into_iter().skip(before);
        let max = self.max.unwrap_or(usize::MAX);
        let items: Vec<T> = rest.by_ref().take(max).collect();
        let next = rest.next().map(|_| format!("{TOKEN}{}", before + items.len()));
        Ok(Page { items, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_text() {
        for (pattern, text, expected) in [
            ("amazon-eks-*", "amazon-eks-node", true),
            ("amazon-eks-*", "bottlerocket", false),
            ("*-v?", "node-v1", true),
            ("*-v?", "node-v12", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_filter_that_the_call_does_not_know_is_refused() {
        let tags = Tags::from([("team".to_owned(), "a".to_owned())]);
        let known = |name: &str| (name == "state").then(|| vec!["active".to_owned()]);
        let passes = |name: &str, value: &str| passes(&[Filter::new(name, [value])], &tags, known);
        assert_eq!(passes("state", "active"), Ok(true));
        assert_eq!(passes("state", "failed"), Ok(false));
        assert_eq!(passes("tag:team", "a"), Ok(true));
        assert_eq!(passes("tag:other", "a"), Ok(false));
        assert_eq!(passes("tag-key", "team"), Ok(true));
        assert_eq!(
            passes("colour", "red").map_err(|error| error.code),
            Err("InvalidParameterValue".to_owned())
        );
    }

    #[test]
    fn pages_end_where_the_list_does() {
        let page = |max: usize, token: Option<&str>| {
            let request = PageRequest {
                max: Some(max),
                token: token.map(str::to_owned),
            };
            request.of([1, 2, 3])
        };
        let first = page(2, None).unwrap();
        assert_eq!(first.items, [1, 2]);
        let second = page(2, first.next.as_deref()).unwrap();
        assert_eq!((second.items, second.next), (vec![3], None));
        assert_eq!(page(3, None).unwrap().next, None);
        assert_eq!(page(2, Some("x")).unwrap_err().code, "InvalidNextToken");
    }
}
