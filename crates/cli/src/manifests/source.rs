//! Which bytes to read: files, the manifests of a folder, or standard input.

use super::error::InputError;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The text of one input.
pub(crate) struct Input {
    pub(crate) name: Arc<str>,
    pub(crate) text: String,
    /// Found in a folder rather than named: what holds no Kubernetes object is passed over instead of refused.
    pub(crate) from_folder: bool,
}

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads every path; `-` is standard input. Folders are walked in name order, sub-folders included.
pub(crate) fn read_inputs(paths: &[PathBuf], stdin: &mut dyn Read) -> (Vec<Input>, Vec<InputError>, Vec<String>) {
    let mut reader = Reader {
        inputs: Vec::new(),
        errors: Vec::new(),
        notes: Vec::new(),
    };
    for path in paths {
        if path.as_os_str() == "-" {
            reader.stdin(stdin);
        } else if path.is_dir() {
            reader.folder(path);
        } else {
            reader.file(path, false);
        }
    }
    (reader.inputs, reader.errors, reader.notes)
}

struct Reader {
    inputs: Vec<Input>,
    errors: Vec<InputError>,
    notes: Vec<String>,
}

impl Reader {
    fn stdin(&mut self, stdin: &mut dyn Read) {
        let mut bytes = Vec::new();
        match stdin.read_to_end(&mut bytes) {
            Ok(_) => self.text("<stdin>", bytes, false),
            Err(error) => self
                .errors
                .push(InputError::new("<stdin>", format!("cannot be read: {error}"))),
        }
    }

    fn file(&mut self, path: &Path, from_folder: bool) {
        let name = path.display().to_string();
        match fs::read(path) {
            Ok(bytes) => self.text(&name, bytes, from_folder),
            Err(error) => {
                let remedy = match error.kind() {
                    io::ErrorKind::NotFound => "check the path given with -f",
                    io::ErrorKind::PermissionDenied => "make the file readable",
                    _ => "check the file",
                };
                self.errors
                    .push(InputError::new(name, format!("cannot be read: {error}")).remedy(remedy));
            }
        }
    }

    fn text(&mut self, name: &str, bytes: Vec<u8>, from_folder: bool) {
        match String::from_utf8(bytes) {
            Ok(text) => self.inputs.push(Input {
                name: name.into(),
                text,
                from_folder,
            }),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let problem = format!("is not UTF-8 text (first bad byte at offset {at})");
                self.errors
                    .push(InputError::new(name, problem).remedy("save it as UTF-8"));
            }
        }
    }

    fn folder(&mut self, folder: &Path) {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.errors
                    .push(InputError::new(folder.display(), format!("cannot be listed: {error}")));
                return;
            }
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if path.is_dir() {
                self.folder(&path);
            } else if path
                .extension()
                .and_then(|e| e.to_str())
                .is_some_and(|e| EXTENSIONS.contains(&e))
            {
                self.file(&path, true);
            } else {
                self.notes.push(format!(
                    "{}: passed over, not a .yaml, .yml or .json file",
                    path.display()
                ));
            }
        }
    }
}
