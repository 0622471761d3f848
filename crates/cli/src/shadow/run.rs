//! Runs `kerf shadow report`.

use super::comparison::Comparison;
use super::records::Records;
use super::table;
use crate::args::{Output, ShadowReportArgs};
use crate::exit::Exit;
use crate::messages::say;
use anyhow::Context as _;
use std::io::{self, Write};

/// Reads, compares and prints.
pub(crate) fn run(args: &ShadowReportArgs) -> anyhow::Result<Exit> {
    let read = match Records::read(&args.files) {
        Ok(read) => read,
        Err(error) => {
            say!("error: {error:#}");
            return Ok(Exit::BadInput);
        }
    };
    for error in &read.errors {
        say!("error: {error}");
    }
    let comparison = Comparison::of(&read.records);
    let text = match args.output {
        Output::Table => table::render(&comparison),
        Output::Json => serde_json::to_string_pretty(&comparison)? + "\n",
        Output::Yaml => serde_saphyr::to_string(&comparison).context("writing YAML")?,
    };
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .context("printing the report")?;
    Ok(match read.errors.is_empty() {
        true => Exit::Done,
        false => Exit::BadInput,
    })
}
