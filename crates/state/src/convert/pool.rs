//! NodePools (section 11 of `docs/behaviour/scheduling.md`) and their disruption settings (section 6 of `docs/behaviour/disruption.md`).

use super::node::{amounts, api_taints};
use super::{Converter, floor};
use crate::object::name_and_uid;
use kerf_api::{NodePool as ApiPool, annotations, conditions};
use kerf_model::budget::{
    Budget, BudgetFault, ConsolidationPolicy, DisruptionPolicy, DisruptionReason, NodeShare, Window,
};
use kerf_model::instance_type::CatalogueFault;
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool, PoolPacking};
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::LabelSet;
use std::sync::Arc;

/// The facts read from a NodePool. Usage and catalogue are added later.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolFacts {
    /// The pool, with nothing used and no catalogue yet.
    pub pool: NodePool,
    /// Its generation, which rises with every change of its spec.
    pub generation: i64,
    /// Whether its node class is of a kind the provider serves.
    pub managed: bool,
}

impl Converter {
    /// Reads a NodePool; `None` without a name or unique id. `assume_ready` replaces a missing Ready condition in offline input.
    pub fn pool(&mut self, written: &ApiPool, assume_ready: bool) -> Option<PoolFacts> {
        let (meta, spec) = (&written.metadata, &written.spec);
        let template = &spec.template;
        let (name, uid) = name_and_uid(meta)?;
        let name = self.text(name);
        let label = self.interner.intern(&name);
        let class = &template.spec.node_class_ref;
        let managed = self.serves(class);
        let mut labels: Vec<(Sym, Sym)> = template
            .labels()
            .map(|(key, value)| {
                let key = self.label_key(key);
                (key, self.label_value(key, value))
            })
            .collect();
        labels.extend([
            (sym::NODEPOOL, label),
            (
                self.interner.intern(&class.label_key()),
                self.interner.intern(&class.name),
            ),
        ]);
        labels.sort_unstable();
        labels.dedup_by_key(|(key, _)| *key);
        let template_labels: LabelSet = template.labels().collect();
        let pool = NodePool {
            eligibility: eligibility(written, managed, assume_ready),
            requirements: self.template_requirements(written, &labels),
            label,
            uid: Arc::from(uid),
            weight: spec.weight(),
            template_labels: self.label_sets.share(template_labels),
            labels,
            taints: api_taints(template.spec.taints()),
            startup_taints: api_taints(template.spec.startup_taints()),
            limits: (!spec.limits.is_empty()).then(|| amounts(&spec.limits, &self.interner, floor)),
            usage: Resources::new(),
            catalogue: Err(CatalogueFault::Empty),
            registration_healthy: registration_healthy(written),
            packing: packing(written),
            disruption: policy(written),
            name,
        };
        Some(PoolFacts {
            pool,
            generation: meta.generation.unwrap_or(0),
            managed,
        })
    }

    /// SCH-112: requirements, labels, pool and class names, and the two keys that let daemons selecting them count.
    fn template_requirements(&self, written: &ApiPool, labels: &[(Sym, Sym)]) -> Requirements {
        let own = written
            .spec
            .template
            .spec
            .requirements
            .iter()
            .map(|r| self.api_requirement(r));
        let mut all = Requirements::from_all(own, &self.interner);
        all.add_all(&Requirements::from_labels(labels, &self.interner), &self.interner);
        for key in [sym::REGISTERED, sym::INITIALIZED] {
            all.add(Requirement::is(key, sym::TRUE), &self.interner);
        }
        all
    }
}

fn condition<'a>(written: &'a ApiPool, kind: &str) -> Option<&'a kerf_api::Condition> {
    written
        .status
        .as_ref()?
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
}

/// Whether provisioning may use a pool, and if not, why (SCH-136 to SCH-138).
fn eligibility(written: &ApiPool, managed: bool, assume_ready: bool) -> Eligibility {
    if !managed {
        return Eligibility::ForeignNodeClass;
    }
    if written.metadata.deletion_timestamp.is_some() {
        return Eligibility::Deleting;
    }
    if written.spec.is_static() {
        return Eligibility::Static;
    }
    match condition(written, conditions::READY) {
        Some(ready) if ready.is_true() => Eligibility::Eligible,
        None if assume_ready => Eligibility::Eligible,
        Some(ready) => Eligibility::NotReady(ready.message().into()),
        None => Eligibility::NotReady(conditions::AWAITING_RECONCILIATION_MESSAGE.into()),
    }
}

fn registration_healthy(written: &ApiPool) -> Option<bool> {
    let condition = condition(written, conditions::node_pool::NODE_REGISTRATION_HEALTHY)?;
    match (condition.is_true(), condition.is_false()) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    }
}

fn policy(written: &ApiPool) -> DisruptionPolicy {
    let disruption = written.spec.disruption();
    DisruptionPolicy {
        consolidation: match disruption.consolidation_policy() {
            kerf_api::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
            kerf_api::ConsolidationPolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
            kerf_api::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
        },
        consolidate_after: disruption.consolidate_after.value(),
        budgets: disruption.budgets().iter().map(budget).collect(),
        retire_blocked: retires_blocked(written),
    }
}

/// Only exactly `"true"` turns it on, as with `karpenter.sh/do-not-disrupt`.
fn retires_blocked(written: &ApiPool) -> bool {
    annotation(written, annotations::RETIRE_BLOCKED).is_some_and(|said| said == "true")
}

/// The annotations about packing.
fn packing(written: &ApiPool) -> PoolPacking {
    PoolPacking::read(
        annotation(written, annotations::PACKING),
        annotation(written, annotations::NODE_OVERHEAD_COST),
    )
}

/// The value of an annotation.
fn annotation<'a>(written: &'a ApiPool, key: &str) -> Option<&'a str> {
    let annotations = written.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

fn budget(written: &kerf_api::Budget) -> Result<Budget, BudgetFault> {
    let nodes = NodeShare::parse(&written.nodes)
        .ok_or_else(|| BudgetFault(format!("nodes {:?} is neither a count nor a percentage", written.nodes).into()))?;
    let window = match (&written.schedule, &written.duration) {
        (Some(schedule), Some(duration)) => Some(Window {
            schedule: schedule
                .parse()
                .map_err(|error| BudgetFault(format!("schedule {schedule:?}: {error}").into()))?,
            duration: duration.value(),
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(BudgetFault("schedule and duration go together".into())),
    };
    Ok(Budget {
        reasons: written
            .reasons
            .as_ref()
            .map(|reasons| reasons.iter().map(reason).collect()),
        nodes,
        window,
    })
}

fn reason(written: &kerf_api::DisruptionReason) -> DisruptionReason {
    match written {
        kerf_api::DisruptionReason::Underutilized => DisruptionReason::Underutilized,
        kerf_api::DisruptionReason::Empty => DisruptionReason::Empty,
        kerf_api::DisruptionReason::Drifted => DisruptionReason::Drifted,
    }
}
