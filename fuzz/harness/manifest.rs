// Manifests: any text is read to its end, and what is said about it is the same each time.

/// One input.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let first = kerf_cli::offline::read(&text);
    assert_eq!(first, kerf_cli::offline::read(&text));
}
