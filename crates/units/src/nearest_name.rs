//! Finds the known name that a misspelt one was probably meant to be.

/// The known name closest to `written`, if few letters differ: one for names of up to four letters, two for longer ones. Upper and lower
/// case count as equal. Ties go to the first.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let allowed = if written.chars().count() <= 4 { 1 } else { 2 };
    let distances = known
        .into_iter()
        .map(|name| (distance(&written, &name.to_lowercase()), name));
    let (least, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (least <= allowed).then_some(name)
}

/// The number of letters to insert, remove or replace that turns one text into the other (Levenshtein distance).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (count, letter) in one.chars().enumerate() {
        let mut next = vec![count + 1];
        for (pair, at) in row.windows(2).zip(&other) {
            let [diagonal, above] = pair else { continue };
            let left = next.last().copied().unwrap_or_default();
            let replaced = diagonal + usize::from(letter != *at);
            next.push(replaced.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (one, other, wanted) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(one, other), wanted, "{one} {other}");
        }
    }

    #[test]
    fn only_near_names_are_meant() {
        let known = ["resources", "image", "name", "env"];
        assert_eq!(nearest("resource", known), Some("resources"));
        assert_eq!(nearest("Image", known), Some("image"));
        assert_eq!(nearest("envs", known), Some("env"));
        assert_eq!(nearest("tolerationSeconds", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
