//! Events about annotations of nodes and pools whose value is not valid and therefore has no effect. (For pods see DIS-053.)

use std::time::Duration;

use kerf_api::annotations::{DO_NOT_DISRUPT, NODE_OVERHEAD_COST, NODE_POOL_HASH, PACKING, RETIRE_BLOCKED};
use kerf_api::hash;
use kerf_runtime::{Event, EventType, ObjectRef};
use kerf_units::policy::{NodeOverheadCost, Packing};
use kube::Resource;

use crate::context::Context;

/// The time between two equal events.
const EVENT_EVERY: Duration = Duration::from_secs(15 * 60);

/// The rule for the value of an annotation.
struct Rule {
    key: &'static str,
    /// The reason of the Warning.
    reason: &'static str,
    is_sound: fn(&str) -> bool,
    wanted: &'static str,
}

const PROTECTION: Rule = Rule {
    key: DO_NOT_DISRUPT,
    reason: "InvalidDoNotDisruptAnnotation",
    is_sound: is_flag,
    wanted: "only \"true\" protects nodes",
};
const HASH: Rule = Rule {
    key: NODE_POOL_HASH,
    reason: "InvalidNodePoolHash",
    is_sound: hash::is_hash,
    wanted: "changes of the NodePool's template go unnoticed until it is the value the NodePool carries",
};
const RETIREMENT: Rule = Rule {
    key: RETIRE_BLOCKED,
    reason: "InvalidRetireBlocked",
    is_sound: is_flag,
    wanted: "only \"true\" lets blocked nodes retire",
};
const WAY_TO_PACK: Rule = Rule {
    key: PACKING,
    reason: "InvalidPacking",
    is_sound: |text| text.parse::<Packing>().is_ok(),
    wanted: "it must be balanced, cheapest or upstream; until then nodes are chosen as by Karpenter",
};
const OVERHEAD: Rule = Rule {
    key: NODE_OVERHEAD_COST,
    reason: "InvalidNodeOverheadCost",
    is_sound: |text| text.parse::<NodeOverheadCost>().is_ok(),
    wanted: "it must be an amount of dollars per hour from 0 to 100, such as \"0.02\"; until then nodes are chosen as by Karpenter",
};

fn is_flag(text: &str) -> bool {
    matches!(text, "true" | "false")
}

/// Why the value of an object's annotation is not valid; `None` if it is valid or absent.
fn fault<K: Resource>(object: &K, rule: &Rule) -> Option<String> {
    let annotations = object.meta().annotations.as_ref()?;
    let value = annotations.get(rule.key).filter(|value| !(rule.is_sound)(value))?;
    Some(format!("Invalid {} annotation: {value:?}, {}", rule.key, rule.wanted))
}

/// Publishes an event for every annotation without effect.
pub(super) fn report(context: &Context) {
    let cluster = &context.cluster;
    for node in cluster.nodes() {
        if let Some(fault) = fault(&*node, &PROTECTION)
            && !cluster.claims_by_provider_id(&node.spec.provider_id).is_empty()
        {
            publish(context, &*node, &PROTECTION, fault);
        }
    }
    for claim in cluster.claims() {
        for rule in [&PROTECTION, &HASH] {
            if let Some(fault) = fault(&*claim, rule) {
                publish(context, &*claim, rule, fault);
            }
        }
    }
    for pool in cluster.pools() {
        for rule in [&RETIREMENT, &WAY_TO_PACK, &OVERHEAD] {
            if let Some(fault) = fault(&*pool, rule) {
                publish(context, &*pool, rule, fault);
            }
        }
    }
}

fn publish<K: Resource<DynamicType = ()>>(context: &Context, object: &K, rule: &Rule, message: String) {
    let Some(object) = ObjectRef::of(object) else { return };
    context.recorder.publish(Event {
        dedupe: vec![object.uid.clone(), message.clone()],
        object,
        kind: EventType::Warning,
        reason: rule.reason.into(),
        message,
        dedupe_timeout: Some(EVENT_EVERY),
    });
}
