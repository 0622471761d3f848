//! Documents that benches write: a part of a text file between two marks, and plots beside it.

use std::path::Path;

/// Writes `text` between the marks of `bench` in a Markdown file. Everything else of the file stays.
pub fn replace_part(file: &Path, bench: &str, text: &str) {
    let (begin, end) = (
        format!("<!-- Written by the bench `{bench}`: begin -->\n"),
        format!("<!-- Written by the bench `{bench}`: end -->\n"),
    );
    let before = std::fs::read_to_string(file).unwrap();
    let (head, rest) = before.split_once(&begin).unwrap();
    let (_, tail) = rest.split_once(&end).unwrap();
    std::fs::write(file, format!("{head}{begin}{text}{end}{tail}")).unwrap();
}

/// Writes plots into a folder, which is made if it is not there.
pub fn write_plots(folder: &Path, plots: impl IntoIterator<Item = (&'static str, String)>) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, svg) in plots {
        std::fs::write(folder.join(name), svg).unwrap();
    }
}
