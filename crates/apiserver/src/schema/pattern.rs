//! Patterns of schemas: Go's regular expressions on Rust's engine.
//!
//! Both are RE2 dialects; they differ in that Go's classes `\d`, `\s` and `\w` are ASCII, so these are spelled out.

use regex::Regex;

/// A compiled pattern with the text users see.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// The pattern as the schema has it.
    pub(crate) source: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles the pattern; the error is the engine's text.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        let regex = Regex::new(&ascii_classes(source)).map_err(|e| e.to_string())?;
        Ok(Self {
            source: source.to_owned(),
            regex,
        })
    }

    /// Whether the pattern is found anywhere in the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn ascii_classes(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => push_escape(&mut out, escaped, in_class),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
            }
            // Rust reads a second `[` as a nested class, Go as a character.
            '[' => out.push_str("\\["),
            ']' if in_class => {
                // `[]a]` and `[^]a]`: a bracket in first place is a character.
                let first = out.ends_with('[') || out.ends_with("[^");
                in_class = first;
                out.push_str(if first { "\\]" } else { "]" });
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char, in_class: bool) {
    let ascii = match escaped {
        'd' => "0-9",
        's' => "\\t\\n\\x0C\\r ",
        'w' => "0-9A-Za-z_",
        other => {
            out.push('\\');
            out.push(other);
            return;
        }
    };
    if in_class {
        out.push_str(ascii);
    } else {
        out.push('[');
        out.push_str(ascii);
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii_and_brackets_are_gos() {
        let matches = |pattern: &str, text: &str| Pattern::compile(pattern).expect("compiles").matches(text);
        assert!(matches(r"^\d+(\.\d+)?$", "34.43"));
        assert!(!matches(r"^\d+$", "٣"));
        assert!(matches(r"^[\d.]+$", "1.2"));
        assert!(matches(r"^[]a]+$", "a]"));
        assert!(matches(r"^[[a]+$", "a["));
        assert!(matches(r"a\sb", "a b"));
        assert!(matches(r"^[^/]*$", ""));
        assert!(Pattern::compile("(").is_err());
    }
}
