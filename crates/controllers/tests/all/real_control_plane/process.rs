//! Programs that end with the process that started them, and their data folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// How much of a log a failing test shows, in bytes.
const TAIL: usize = 4000;

/// A folder that goes when this is dropped, unless a test is failing: then the logs in it may be wanted.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kerf-real-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and returns where it is.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the folder can be written to");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the logs are in {}", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it prints goes to a file in `folder`.
    pub(crate) fn start(program: &Path, folder: &Folder, arguments: impl IntoIterator<Item = OsString>) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = folder.path(&format!("{name}.log"));
        let out = File::create(&log).expect("the folder can be written to");
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("one more handle"))
            .stderr(out)
            .spawn()
            .expect(&name);
        Self { name, child, log }
    }

    /// Fails the test if the program has ended.
    pub(crate) fn assert_running(&mut self) {
        let ended = self.child.try_wait().expect("a child of ours");
        assert!(ended.is_none(), "{} ended: {ended:?}\n{}", self.name, self.tail());
    }

    /// The end of what it printed.
    pub(crate) fn tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let tail = text.get(text.len().saturating_sub(TAIL)..).unwrap_or_default();
        format!("{}:\n{}", self.name, String::from_utf8_lossy(tail))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
