//! The source tree as text: files, their comments, and their code with comments and literals blanked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The workspace's root folder.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Every file below `folder` (relative to the root) with this extension, sorted; build output is left out.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("a folder of the tree is readable");
        for entry in entries {
            let path = entry.expect("a folder entry").path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with(".git") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path relative to the root, with forward slashes.
pub(crate) fn relative(path: &Path) -> String {
    let inside = path.strip_prefix(root()).expect("a path below the root");
    inside.to_string_lossy().replace('\\', "/")
}

/// The name of the crate (its folder below `crates/`) that holds a relative path.
pub(crate) fn crate_of(relative: &str) -> &str {
    relative
        .strip_prefix("crates/")
        .and_then(|rest| rest.split('/').next())
        .unwrap_or(relative)
}

/// What sort of comment a line holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comment {
    /// `///`: documents what follows.
    Outer,
    /// `//!`: documents what it is in.
    Inner,
    /// `//`: for readers of the code.
    Plain,
}

/// One Rust file.
pub(crate) struct Source {
    /// Its path relative to the root.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
    /// Its text with comments and the contents of literals replaced by spaces; line breaks stay.
    pub(crate) code: String,
    /// Line comments by line number (from 1): the sort and the text after the slashes.
    pub(crate) comments: BTreeMap<usize, (Comment, String)>,
}

/// Every Rust file of the workspace's crates.
pub(crate) fn rust_files() -> Vec<Source> {
    files("crates", "rs").iter().map(|path| Source::read(path)).collect()
}

impl Source {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a file of the tree is UTF-8 text");
        Self::new(relative(path), text)
    }

    pub(crate) fn new(path: String, text: String) -> Self {
        let (code, comments) = lex(&text);
        Self {
            path,
            text,
            code,
            comments,
        }
    }

    /// Where test code begins and ends, in bytes of `code`: the whole file below `tests/` or `benches/` or in `tests.rs`, else each item
    /// under `#[cfg(test)]`.
    pub(crate) fn test_code(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        if self.is_test_file() {
            ranges.push(0..self.code.len());
            return ranges;
        }
        for (at, _) in self.code.match_indices("#[cfg(test)]") {
            if ranges.last().is_none_or(|last| at >= last.end) {
                ranges.push(at..item_end(&self.code, at));
            }
        }
        ranges
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test_file(&self) -> bool {
        let mut parts = self.path.split('/').rev();
        parts
            .next()
            .is_some_and(|name| name == "tests.rs" || name.ends_with("_tests.rs"))
            || parts.any(|part| part == "tests" || part == "benches" || part.ends_with("_tests"))
    }

    /// `code` without test code (spaces in its place).
    pub(crate) fn shipped_code(&self) -> String {
        let mut bytes = self.code.clone().into_bytes();
        for range in self.test_code() {
            for byte in &mut bytes[range] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        String::from_utf8(bytes).expect("blanking whole items keeps UTF-8")
    }

    /// The line number (from 1) of a byte position.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.code.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// Where the item that starts at `at` ends: at its first `;` outside braces, or at the brace that closes it.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    return offset + 1;
                }
            }
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// Blanks comments and literals and collects the line comments.
fn lex(text: &str) -> (String, BTreeMap<usize, (Comment, String)>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut comments = BTreeMap::new();
    let mut line = 1;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            let end = at + rest.find('\n').unwrap_or(rest.len());
            let body = &text[at + 2..end];
            let comment = match body.as_bytes().first() {
                Some(b'!') => (Comment::Inner, body[1..].to_owned()),
                Some(b'/') if !body.starts_with("//") => (Comment::Outer, body[1..].to_owned()),
                _ => (Comment::Plain, body.to_owned()),
            };
            comments.insert(line, comment);
            end
        } else if rest.starts_with("/*") {
            at + rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest, at.checked_sub(1).map(|before| bytes[before])) {
            at + length
        } else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            if bytes[at] == b'\n' {
                line += 1;
            }
            at += length;
            continue;
        };
        for byte in &mut code[at..end] {
            if *byte == b'\n' {
                line += 1;
            } else {
                *byte = b' ';
            }
        }
        at = end;
    }
    (
        String::from_utf8(code).expect("whole characters were blanked"),
        comments,
    )
}

/// The length of the string or character literal that `rest` begins with.
fn literal(rest: &str, before: Option<u8>) -> Option<usize> {
    if !matches!(rest.as_bytes().first(), Some(b'b' | b'c' | b'r' | b'"' | b'\'')) {
        return None;
    }
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let prefixed = ["br", "cr", "r", "b", "c", ""]
        .into_iter()
        .filter(|prefix| prefix.is_empty() || !in_word)
        .find(|prefix| {
            rest.strip_prefix(prefix).is_some_and(|body| {
                let hashes = body.len() - body.trim_start_matches('#').len();
                body[hashes..].starts_with('"') && (hashes == 0 || prefix.ends_with('r'))
            })
        });
    if let Some(prefix) = prefixed {
        let body = &rest[prefix.len()..];
        let hashes = body.len() - body.trim_start_matches('#').len();
        let start = prefix.len() + hashes + 1;
        let raw = prefix.ends_with('r');
        let closing = format!("\"{}", "#".repeat(hashes));
        let mut at = start;
        while at < rest.len() {
            let here = &rest[at..];
            if !raw && here.starts_with('\\') {
                at += 1 + here[1..].chars().next().map_or(0, char::len_utf8);
            } else if here.starts_with(&closing) {
                return Some(at + closing.len());
            } else {
                at += here.chars().next().map_or(1, char::len_utf8);
            }
        }
        return Some(rest.len());
    }
    let body = rest.strip_prefix('\'')?;
    let mut chars = body.chars();
    let first = chars.next()?;
    if first == '\\' {
        let escaped = 1 + chars.next()?.len_utf8();
        return body[escaped..].find('\'').map(|end| 1 + escaped + end + 1);
    }
    // Anything else in one pair of quotes is a character; a quote without its partner starts a lifetime.
    (chars.next() == Some('\'')).then(|| 1 + first.len_utf8() + 1)
}

#[test]
fn lexing_separates_code_comments_and_literals() {
    let text = "let a = \"// no\"; // yes 'x\nlet b = r#\"\"//\"#; let c = '\"'; let d: &'a str = b\"\\\"//\"; /// doc\n/* gone\n */ f('\\'')";
    let source = Source::new("x.rs".to_owned(), text.to_owned());
    let comments: Vec<_> = source.comments.into_iter().collect();
    assert_eq!(
        comments,
        [
            (1, (Comment::Plain, " yes 'x".to_owned())),
            (2, (Comment::Outer, " doc".to_owned()))
        ]
    );
    let words: Vec<&str> = source.code.split_whitespace().collect();
    assert_eq!(words.join(" "), "let a = ; let b = ; let c = ; let d: &'a str = ; f( )");
}

#[test]
fn test_code_is_what_cfg_test_covers() {
    let text =
        "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { {} }\n}\nfn c() {}\n#[cfg(test)]\nmod other;\nfn d() {}\n";
    let source = Source::new("crates/x/src/x.rs".to_owned(), text.to_owned());
    let shipped = source.shipped_code();
    let words: Vec<&str> = shipped.split_whitespace().collect();
    assert_eq!(words.join(" "), "fn a() {} fn c() {} fn d() {}");
    assert_eq!(source.line_of(shipped.find("fn d").expect("fn d")), 9);
}
