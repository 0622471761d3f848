//! The kubeconfig file of `kerf up`. The process locks it while it runs, so that no other one takes it, and removes only its own file.

use anyhow::Context as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What every kubeconfig of the embedded cluster begins with; a file that begins otherwise is not overwritten.
const BEGINNING: &str = "apiVersion: v1\nkind: Config\ncurrent-context: kerf\n";

/// Attempts to lock the file at the path while other processes create and remove it.
const ATTEMPTS: u32 = 10;

/// A locked kubeconfig file, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct KubeconfigFile {
    path: PathBuf,
    file: File,
}

impl KubeconfigFile {
    /// Creates the file, or takes one that an earlier `kerf up` left. Only its owner can read it, because it will hold a client key.
    pub(crate) fn take(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        for _ in 0..ATTEMPTS {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .with_context(|| format!("writing {name}"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => anyhow::bail!(
                    "{name} belongs to another running kerf up; choose another file with --write-kubeconfig"
                ),
                Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("locking {name}")),
            }
            let mut taken = Self {
                path: path.to_owned(),
                file,
            };
            // The owner before may have removed the file between opening and locking it.
            if taken.is_at_path() {
                let mut text = Vec::new();
                taken
                    .file
                    .read_to_end(&mut text)
                    .with_context(|| format!("reading {name}"))?;
                if !text.is_empty() && !text.starts_with(BEGINNING.as_bytes()) {
                    // Somebody else's file stays where it is.
                    taken.path.clear();
                    anyhow::bail!(
                        "{name} exists and kerf up did not write it; choose another file with --write-kubeconfig"
                    );
                }
                let private = fs::Permissions::from_mode(0o600);
                taken
                    .file
                    .set_permissions(private)
                    .with_context(|| format!("writing {name}"))?;
                return Ok(taken);
            }
        }
        anyhow::bail!("{name} is removed again and again; choose another file with --write-kubeconfig")
    }

    /// Replaces the content of the file.
    pub(crate) fn write(&self, text: &str) -> anyhow::Result<()> {
        let mut file = &self.file;
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()));
        written.with_context(|| format!("writing {}", self.path.display()))
    }

    /// Removes the file unless another one stands at its path.
    pub(crate) fn remove(&self) {
        if self.is_at_path() {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn is_at_path(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().map(identity);
        let there = fs::metadata(&self.path).map(identity);
        matches!((own, there), (Ok(own), Ok(there)) if own == there)
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kerf-kubeconfig-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder.join(name)
    }

    #[test]
    fn one_process_owns_the_file_and_removes_only_its_own() {
        let path = path("owned");
        let first = KubeconfigFile::take(&path).expect("a new file");
        first.write(BEGINNING).expect("written");
        let refused = KubeconfigFile::take(&path).expect_err("it is locked").to_string();
        assert!(refused.contains("another running kerf up"), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("there"), BEGINNING);

        // A file that replaced it is not removed.
        fs::remove_file(&path).expect("removed");
        fs::write(&path, BEGINNING).expect("written");
        drop(first);
        let left = KubeconfigFile::take(&path).expect("one that is left over is taken");
        assert_eq!(left.file.metadata().expect("there").mode() & 0o777, 0o600);
        drop(left);
        assert!(!path.exists());
    }

    #[test]
    fn the_file_of_somebody_else_is_kept() {
        let path = path("foreign");
        fs::write(&path, "apiVersion: v1\nkind: Config\ncurrent-context: prod\n").expect("written");
        let refused = KubeconfigFile::take(&path).expect_err("not ours").to_string();
        assert!(refused.contains("kerf up did not write it"), "{refused}");
        assert!(path.exists());
    }
}
