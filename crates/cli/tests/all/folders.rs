//! Which files of a folder are read.

use crate::kerf::{Outcome, kerf};
use crate::manifest::{NOW, amd64, class, list, pool};
use kerf_testkit::objects::pod;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A new folder with a pool and one pod.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let pool = pool("default", &amd64(), serde_json::json!({}));
    let items = list(&[class("default"), pool, pod("one", "1")]);
    fs::write(folder.join("all.json"), items).expect("a file");
    folder
}

fn simulate(path: &Path) -> Outcome {
    let path = path.display().to_string();
    kerf(&["simulate", "-f", &path, "-o", "json", NOW[0], NOW[1]])
}

/// Its pods, after a run without errors.
fn pods(outcome: &Outcome) -> u64 {
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("a report");
    report["totals"]["pods"].as_u64().expect("a number")
}

#[test]
fn a_folder_that_links_to_itself_is_read_once() {
    let folder = folder("loop");
    symlink(".", folder.join("self")).expect("a link");
    fs::create_dir(folder.join("sub")).expect("a folder");
    symlink("..", folder.join("sub/up")).expect("a link");
    let outcome = simulate(&folder);
    assert_eq!(pods(&outcome), 1);
    for link in ["self", "sub/up"] {
        let note = format!("{link}: skipped, this link leads back to {}", folder.display());
        assert!(outcome.stderr.contains(&note), "{}", outcome.stderr);
    }
    fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn a_file_with_two_names_is_read_once() {
    let folder = folder("twice");
    symlink("all.json", folder.join("link.json")).expect("a link");
    fs::hard_link(folder.join("all.json"), folder.join("same.json")).expect("a link");
    let outcome = simulate(&folder);
    assert_eq!(pods(&outcome), 1);
    assert_eq!(
        outcome.stderr.matches("it is the same as").count(),
        2,
        "{}",
        outcome.stderr
    );
    fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn a_pipe_in_a_folder_is_not_waited_for() {
    let folder = folder("pipe");
    let made = Command::new("mkfifo")
        .arg(folder.join("pipe.yaml"))
        .status()
        .expect("mkfifo");
    assert!(made.success());
    let outcome = simulate(&folder);
    assert_eq!(pods(&outcome), 1);
    assert!(
        outcome.stderr.contains("pipe.yaml: skipped, not a regular file"),
        "{}",
        outcome.stderr
    );
    fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn too_much_input_is_refused_before_it_is_read() {
    let folder = folder("huge");
    let huge = File::create(folder.join("huge.yaml")).expect("a file");
    // A hole: it takes no room on disk.
    huge.set_len(3 << 30).expect("a long file");
    let outcome = simulate(&folder);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let error = "huge.yaml: is not read: the input exceeds 1 GiB in total; name fewer files";
    assert!(outcome.stderr.contains(error), "{}", outcome.stderr);
    fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn a_folder_without_manifests_is_refused_like_an_empty_file() {
    let folder = folder("empty");
    fs::rename(folder.join("all.json"), folder.join("all.txt")).expect("another name");
    let outcome = simulate(&folder);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("holds no .yaml, .yml or .json file"),
        "{}",
        outcome.stderr
    );
    fs::remove_dir_all(folder).expect("the folder");
}
