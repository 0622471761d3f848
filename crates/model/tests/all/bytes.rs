//! The fuzz target's check of requirements (`fuzz/harness`) on bytes drawn at random.

use proptest::prelude::*;

mod requirement {
    include!("../../../../fuzz/harness/requirement.rs");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requirements(data: [u8; 32]) {
        requirement::check(&data);
    }

    #[test]
    fn bytes(data: Vec<u8>) {
        requirement::check(&data);
    }
}
