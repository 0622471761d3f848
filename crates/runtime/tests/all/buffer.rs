//! Log output kept in memory.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What a log writes; clones share the text.
#[derive(Clone, Default)]
pub(crate) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic holds it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    /// Everything written.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic holds it").clone()).expect("UTF-8")
    }

    /// The lines written, each as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }
}
