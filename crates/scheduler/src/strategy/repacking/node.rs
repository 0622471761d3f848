//! The nodes of a plan as the number of pods of each class, without the pods themselves.

use crate::compile::classes::ClassId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimId, DomainId, KeyId};
use crate::search::assignment::Assignment;
use crate::strategy::objective::NodeCosts;
use crate::strategy::repacking::rules::{Members, MoveRules};
use kerf_model::price::Price;
use smallvec::SmallVec;

/// The topology domains a node is in: key and domain.
pub(in crate::strategy) type Pins = SmallVec<[(KeyId, DomainId); 2]>;

/// A node of the plan.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) template: TemplateId,
    pub(super) pins: Pins,
    /// The claim it was, if some of its pods stay there.
    pub(super) origin: Option<ClaimId>,
    /// The pods that stay.
    pub(super) fixed: Members,
    /// The pods that may move.
    pub(super) loose: Members,
    /// The price plus the node cost, in 10⁻¹² dollars per hour.
    pub(super) price: i64,
}

impl Node {
    /// The number of pods that may move.
    pub(super) fn movable(&self) -> u32 {
        self.loose.iter().map(|(_, n)| n).sum()
    }
}

/// The domains that a move of a class from a node must keep. `None` where the node is not in one domain of such a key.
pub(super) fn kept(rules: &MoveRules, class: ClassId, pins: &Pins) -> Option<Pins> {
    let keys = rules.of(class).kept_keys.iter();
    keys.map(|key| pins.iter().find(|pin| pin.0 == *key).copied()).collect()
}

/// The claims of an assignment as nodes. `stays` returns whether the pods of a class on a claim are known to stay there.
pub(super) fn nodes(
    assignment: &mut Assignment<'_, '_>,
    rules: &MoveRules,
    node_costs: &NodeCosts,
    stays: impl Fn(ClaimId, ClassId) -> bool,
) -> Vec<Node> {
    let problem = assignment.problem;
    let mut nodes = Vec::with_capacity(assignment.claims.len());
    for at in assignment.claims.ids() {
        let price = assignment.price_of(at);
        let claim = &assignment.claims[at];
        let spec = assignment.specs.get(claim.spec);
        let keys = problem.keys.tables.ids();
        let pins: Pins = keys.filter_map(|key| Some((key, spec.domains(key).one?))).collect();
        let template = &problem.templates[claim.template];
        let closed = template.requirements.has_min_values() || !spec.reserved.is_empty() || price == Price::MAX;
        let (mut fixed, mut loose) = (Members::new(), Members::new());
        for (class, n) in &claim.members {
            let stays = closed || stays(at, *class) || rules.of(*class).fixed || kept(rules, *class, &pins).is_none();
            let list = if stays { &mut fixed } else { &mut loose };
            list.push((*class, *n));
        }
        nodes.push(Node {
            template: claim.template,
            pins,
            origin: (!fixed.is_empty()).then_some(at),
            fixed,
            loose,
            price: price.pico().saturating_add(node_costs[claim.template]),
        });
    }
    nodes
}
