//! Command lines as a shell reads them.

/// The words of a text: quotes keep blanks, a backslash keeps the next character, and one at the end of a line joins it with the next.
/// `None` for a text whose quotes do not end.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        kept => word.push(kept),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            kept @ ('"' | '\\' | '$' | '`') => word.push(kept),
                            '\n' => {}
                            other => word.extend(['\\', other]),
                        },
                        kept => word.push(kept),
                    }
                }
            }
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some(kept) => word.get_or_insert_default().push(kept),
            },
            blank if blank.is_whitespace() => words.extend(word.take()),
            kept => word.get_or_insert_default().push(kept),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_are_those_of_a_shell() {
        let read = |text: &str| words(text).unwrap();
        assert_eq!(read("a 'b c' \"d \\\"e\\\"\" f\\ g"), ["a", "b c", "d \"e\"", "f g"]);
        assert_eq!(read("a \\\n--b='c'd"), ["a", "--b=cd"]);
        assert_eq!(read("'' x"), ["", "x"]);
        assert!(words("'open").is_none() && words("\"open").is_none());
    }
}
