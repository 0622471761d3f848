//! The fuzz target's check of manifests (`fuzz/harness`) on random bytes, and on manifests with some bytes changed.

use proptest::prelude::*;
use std::fs;
use std::path::Path;

mod harness {
    include!("../../../../fuzz/harness/manifest.rs");
}

fn examples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = fs::read_dir(folder).expect("the examples");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("an example")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes(data: Vec<u8>) {
        harness::check(&data);
    }

    #[test]
    fn changed_examples(
        example in prop::sample::select(examples()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(b'-'), Just(b'\n'), Just(b'{'), Just(b'9')]), 1..6),
    ) {
        let mut data = example;
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        harness::check(&data);
    }
}
