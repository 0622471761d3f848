//! The fuzz targets' checks (`fuzz/harness`) on bytes drawn at random, and on texts near what they read.

use proptest::prelude::*;

mod cron {
    include!("../../../../fuzz/harness/cron.rs");
}
mod duration {
    include!("../../../../fuzz/harness/duration.rs");
}
mod quantity {
    include!("../../../../fuzz/harness/quantity.rs");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quantities(text in prop_oneof!["[+-]?[0-9.]{0,24}([numkKMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{0,4})?", "\\PC{0,24}"]) {
        quantity::check(text.as_bytes());
    }

    #[test]
    fn durations(text in prop_oneof!["[+-]?([0-9.]{1,12}(ns|us|µs|ms|s|m|h)){0,4}", "(Never|[0-9.]{1,24}[a-z]{0,2})", "\\PC{0,24}"]) {
        duration::check(text.as_bytes());
    }

    #[test]
    fn schedules(
        time: [u8; 8],
        text in prop_oneof![
            "([0-9*/,?-]{1,8} ){4}[0-9*/,?-]{1,8}",
            "([0-9]{1,2}|\\*) ([0-9]{1,2}|\\*/[1-9]) ([12]?[0-9]|31|\\*) (JAN|feb|2|\\*|2-12) (MON|0-6|\\*|5)",
            "@(yearly|annually|monthly|weekly|daily|midnight|hourly|every [0-9]{1,12}[hms])",
        ],
    ) {
        cron::check(&[&time[..], text.as_bytes()].concat());
    }

    #[test]
    fn bytes(data: Vec<u8>) {
        for check in [cron::check, duration::check, quantity::check] {
            check(&data);
        }
    }
}
