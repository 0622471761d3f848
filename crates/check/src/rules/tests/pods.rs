//! Tolerations and host ports.

use super::config;
use crate::rules::{host_port, taint};
use kerf_model::pod::HostPort;
use kerf_model::taint::{Effect, Taint, Toleration, TolerationOperator, first_untolerated};
use proptest::prelude::*;

const KEYS: [&str; 3] = ["", "gpu", "team"];
const VALUES: [&str; 5] = ["", "a", "5", "05", "6"];
const EFFECTS: [Effect; 3] = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
const OPERATORS: [TolerationOperator; 5] = [
    TolerationOperator::Equal,
    TolerationOperator::Exists,
    TolerationOperator::Lt,
    TolerationOperator::Gt,
    TolerationOperator::Unknown,
];

fn toleration() -> impl Strategy<Value = Toleration> {
    let key = prop::option::of(prop::sample::select(&KEYS[..]));
    let effect = prop::option::of(prop::sample::select(&EFFECTS[..]));
    let (operator, value) = (prop::sample::select(&OPERATORS[..]), prop::sample::select(&VALUES[..]));
    (key, operator, value, effect).prop_map(|(key, operator, value, effect)| Toleration {
        key: key.map(Into::into),
        operator,
        value: value.into(),
        effect,
    })
}

fn taint() -> impl Strategy<Value = Taint> {
    let (key, value) = (prop::sample::select(&KEYS[1..]), prop::sample::select(&VALUES[..]));
    (key, value, prop::sample::select(&EFFECTS[..])).prop_map(|(key, value, effect)| Taint {
        key: key.into(),
        value: value.into(),
        effect,
    })
}

fn port() -> impl Strategy<Value = HostPort> {
    let ip = prop::sample::select(&["0.0.0.0", "::", "10.0.0.1", "10.0.0.2", "::1"][..]);
    let protocol = prop::sample::select(&["TCP", "UDP"][..]);
    (ip, 80_u16..82, protocol).prop_map(|(ip, port, protocol)| HostPort {
        ip: ip.into(),
        port,
        protocol: protocol.into(),
    })
}

proptest! {
    #![proptest_config(config(3))]

    #[test]
    fn tolerations_match_alike(toleration in toleration(), taint in taint()) {
        prop_assert_eq!(taint::matches(&toleration, &taint), toleration.tolerates(&taint));
    }

    #[test]
    fn the_same_taint_refuses_first(
        taints in prop::collection::vec(taint(), 0..4), tolerations in prop::collection::vec(toleration(), 0..3),
    ) {
        let hard: Vec<Taint> = taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule).cloned().collect();
        prop_assert_eq!(taint::first_refusing(&taints, &tolerations), first_untolerated(&hard, &tolerations));
    }

    #[test]
    fn ports_conflict_alike(one in port(), other in port()) {
        prop_assert_eq!(host_port::conflict(&one, &other), one.conflicts(&other));
    }
}
