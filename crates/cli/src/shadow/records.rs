//! Reads the files of `kerf controller --observe-file`.

use anyhow::Context as _;
use kerf_controllers::ShadowRecord;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The records of a file, and the lines that are none.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) records: Vec<ShadowRecord>,
    /// What is wrong with lines, by file and number.
    pub(super) errors: Vec<String>,
}

impl Records {
    /// Reads files one after the other; `-` is standard input.
    pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for path in paths {
            let name = path.display().to_string();
            if path == Path::new("-") {
                all.append(&name, std::io::stdin().lock())?;
            } else {
                let file = std::fs::File::open(path).with_context(|| format!("reading {name}"))?;
                all.append(&name, file)?;
            }
        }
        Ok(all)
    }

    fn append(&mut self, name: &str, source: impl Read) -> anyhow::Result<()> {
        for (at, line) in BufReader::new(source).split(b'\n').enumerate() {
            let line = line.with_context(|| format!("reading {name}"))?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(record) => self.records.push(record),
                Err(error) => self.errors.push(format!(
                    "{name}:{}: no record of kerf controller --observe: {error}",
                    at + 1
                )),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_records_are_named() {
        let text = "{\"type\":\"commandEnded\",\"time\":\"2026-01-01T00:00:00Z\",\"id\":1}\n\n{\"type\":\"comm";
        let mut records = Records::default();
        records.append("day.jsonl", text.as_bytes()).expect("bytes can be read");
        assert_eq!(records.records.len(), 1);
        let [error] = records.errors.as_slice() else {
            panic!("{:?}", records.errors)
        };
        assert!(
            error.starts_with("day.jsonl:3: no record of kerf controller --observe: "),
            "{error}"
        );
    }
}
