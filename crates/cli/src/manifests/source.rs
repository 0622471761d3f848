//! Reads bytes: files, the manifests in a folder, or standard input.

use super::error::InputError;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The text of one input.
pub(crate) struct Input {
    pub(crate) name: Arc<str>,
    pub(crate) text: String,
    /// The file was found in a folder, not named by the user. A document in it that is no Kubernetes object is a note, not an error.
    pub(crate) from_folder: bool,
}

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The most bytes that all inputs together may have: 1 GiB. `kubectl get pods -o json` prints about 10 KB per pod, so this is a cluster of
/// 100,000 pods. Reading takes about six times as much memory.
const MAX_BYTES: u64 = 1 << 30;

/// Reads every path; `-` is standard input. Folders are read in name order, with their subfolders. Returns the texts, the errors and the
/// notes.
///
/// A file or folder that is reachable on several ways (symbolic links, hard links) is read once. In folders only regular files are read; a
/// path that the user names may also be a pipe.
pub(crate) fn read_inputs(paths: &[PathBuf], stdin: &mut dyn Read) -> (Vec<Input>, Vec<InputError>, Vec<String>) {
    let mut reader = Reader::new(MAX_BYTES);
    for path in paths {
        if path.as_os_str() == "-" {
            reader.stdin(stdin);
        } else if path.is_dir() {
            reader.named_folder(path);
        } else {
            reader.file(path, false);
        }
    }
    (reader.inputs, reader.errors, reader.notes)
}

/// Identifies a file or folder: device and inode.
type Identity = (u64, u64);

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

struct Reader {
    inputs: Vec<Input>,
    errors: Vec<InputError>,
    notes: Vec<String>,
    /// The path under which each file and folder was read first.
    seen: BTreeMap<Identity, PathBuf>,
    /// How many more bytes may be read.
    bytes_left: u64,
    /// Whether the error about too much input is reported.
    is_full: bool,
    /// How many manifests and errors were found in folders.
    found: usize,
}

impl Reader {
    fn new(bytes: u64) -> Self {
        Self {
            inputs: Vec::new(),
            errors: Vec::new(),
            notes: Vec::new(),
            seen: BTreeMap::new(),
            bytes_left: bytes,
            is_full: false,
            found: 0,
        }
    }

    fn stdin(&mut self, stdin: &mut dyn Read) {
        match self.bytes(stdin) {
            Ok(Some(bytes)) => self.text("<stdin>", bytes, false),
            Ok(None) => self.too_much("<stdin>"),
            Err(error) => self
                .errors
                .push(InputError::new("<stdin>", format!("cannot be read: {error}"))),
        }
    }

    /// Reads to the end; `None` if that exceeds the limit.
    fn bytes(&mut self, from: &mut dyn Read) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        from.take(self.bytes_left.saturating_add(1)).read_to_end(&mut bytes)?;
        let length = bytes.len() as u64;
        if length > self.bytes_left {
            return Ok(None);
        }
        self.bytes_left -= length;
        Ok(Some(bytes))
    }

    fn too_much(&mut self, name: &str) {
        if !self.is_full {
            self.is_full = true;
            let error = InputError::new(name, "is not read: the input exceeds 1 GiB in total");
            self.errors
                .push(error.remedy("name fewer files, or only the kinds that decisions read"));
        }
    }

    /// Whether a file or folder is new. Otherwise a note names the path under which it was read.
    fn is_new(&mut self, path: &Path, metadata: &Metadata) -> bool {
        if let Some(first) = self.seen.get(&identity(metadata)) {
            let text = match path.starts_with(first) && metadata.is_dir() {
                true => format!(
                    "{}: skipped, this link leads back to {}",
                    path.display(),
                    first.display()
                ),
                false => format!("{}: skipped, it is the same as {}", path.display(), first.display()),
            };
            self.notes.push(text);
            return false;
        }
        self.seen.insert(identity(metadata), path.to_owned());
        true
    }

    fn file(&mut self, path: &Path, from_folder: bool) {
        let name = path.display().to_string();
        // The kind of file is checked first: opening a pipe without a writer would wait for ever.
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.unreadable(name, &error),
        };
        if from_folder && !metadata.is_file() {
            self.notes.push(format!("{name}: skipped, not a regular file"));
            return;
        }
        if metadata.is_file() && !self.is_new(path, &metadata) {
            return;
        }
        if metadata.len() > self.bytes_left {
            return self.too_much(&name);
        }
        match File::open(path).and_then(|mut file| self.bytes(&mut file)) {
            Ok(Some(bytes)) => self.text(&name, bytes, from_folder),
            Ok(None) => self.too_much(&name),
            Err(error) => self.unreadable(name, &error),
        }
    }

    fn unreadable(&mut self, name: String, error: &io::Error) {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "check the path given with -f",
            io::ErrorKind::PermissionDenied => "make the file readable",
            _ => "check the file",
        };
        self.errors
            .push(InputError::new(name, format!("cannot be read: {error}")).remedy(remedy));
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

    /// Reads a folder that the user names: it must hold something to read.
    fn named_folder(&mut self, folder: &Path) {
        let known = fs::metadata(folder).is_ok_and(|metadata| self.seen.contains_key(&identity(&metadata)));
        let before = self.found;
        self.folder(folder);
        if !known && self.found == before {
            let error = InputError::new(folder.display(), "holds no .yaml, .yml or .json file");
            self.errors.push(error.remedy("name a folder with manifests"));
        }
    }

    fn folder(&mut self, folder: &Path) {
        let unlisted = |error: io::Error| InputError::new(folder.display(), format!("cannot be listed: {error}"));
        match fs::metadata(folder) {
            Ok(metadata) => {
                if !self.is_new(folder, &metadata) {
                    return;
                }
            }
            Err(error) => {
                self.found += 1;
                return self.errors.push(unlisted(error));
            }
        }
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.found += 1;
                return self.errors.push(unlisted(error));
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
                self.found += 1;
                self.file(&path, true);
            } else {
                self.notes
                    .push(format!("{}: skipped, not a .yaml, .yml or .json file", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_for_all_inputs_together() {
        let mut reader = Reader::new(10);
        reader.stdin(&mut [b'a'; 6].as_slice());
        reader.stdin(&mut [b'b'; 4].as_slice());
        assert_eq!((reader.inputs.len(), reader.errors.len()), (2, 0));
        reader.stdin(&mut [b'c'; 1].as_slice());
        reader.stdin(&mut [b'd'; 1].as_slice());
        assert_eq!((reader.inputs.len(), reader.errors.len()), (2, 1));
        assert!(reader.errors[0].to_string().contains("exceeds 1 GiB in total"));
    }
}
