//! Splits a YAML stream into documents, so that a syntax error in one does not hide the others.

/// One document and the line it starts at (1-based).
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

/// Splits at lines that start with `---`. No content can start there (a block scalar is always indented), so no parser is needed.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        let marker = bare == "---" || bare.starts_with("--- ") || bare.starts_with("---\t");
        if marker && offset > start {
            documents.push(Document {
                text: &text[start..offset],
                line: start_line,
            });
        }
        if marker {
            // Text after the marker on the same line belongs to the document.
            (start, start_line) = (offset, number + 1);
        }
        offset += line.len();
    }
    documents.push(Document {
        text: &text[start..],
        line: start_line,
    });
    documents.retain(|document| has_content(document.text));
    documents
}

fn has_content(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with('#') || line == "---" || line == "..." || line.starts_with('%'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_at_markers_only() {
        let text = "# head\n---\na: 1\n---\n# nothing here\n---\nb: |\n  ---\n  text\n--- \nc: 3\n";
        let found: Vec<_> = documents(text)
            .iter()
            .map(|d| (d.line, d.text.contains("---\n  text")))
            .collect();
        assert_eq!(found, [(2, false), (6, true), (10, false)]);
        assert_eq!(documents("a: 1\n").len(), 1);
        assert_eq!(documents("").len(), 0);
        assert_eq!(documents("\u{feff}--- {a: 1}\n").len(), 1);
    }
}
