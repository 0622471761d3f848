//! The cheapest nodes for a few pods, found among all ways to share them out.

use crate::compile::classes::ClassId;
use crate::compile::templates::TemplateId;
use crate::strategy::repacking::node::{Node, Pins};
use crate::strategy::repacking::recreate::Recreator;
use crate::strategy::repacking::rules::{Members, add_member};

/// Up to this many pods, all ways to share them out are compared: 2⁸ nodes and 3⁸ pairs of a node and what is left.
pub(super) const EXACT_MAX: u32 = 8;

impl Recreator<'_, '_, '_, '_> {
    /// The cheapest nodes of a template for some pods, which no domain binds. Returns `None` where some pod fits no node.
    pub(super) fn cheapest_nodes(&mut self, template: TemplateId, pods: &[ClassId]) -> Option<Vec<Node>> {
        let sets = 1_usize << pods.len();
        let nodes: Vec<Option<Node>> = (0..sets).map(|set| self.node_of(template, pods, set)).collect();
        self.work += sets as u64;
        // Per set of pods: the lowest cost, and the node of the first pod that reaches it.
        let mut best: Vec<Option<(i64, usize)>> = vec![None; sets];
        best[0] = Some((0, 0));
        for set in 1..sets {
            let first = set & set.wrapping_neg();
            let mut with_first = set;
            // Larger nodes come first, so that of equal costs the one with fewer nodes is kept.
            while with_first > 0 {
                if with_first & first != 0
                    && let Some(node) = &nodes[with_first]
                    && let Some((rest, _)) = best[set & !with_first]
                {
                    let cost = node.price.saturating_add(rest);
                    if best[set].is_none_or(|(known, _)| cost < known) {
                        best[set] = Some((cost, with_first));
                    }
                }
                with_first = (with_first - 1) & set;
            }
        }
        let (mut left, mut chosen) = (sets - 1, Vec::new());
        while left > 0 {
            let (_, node) = best[left]?;
            chosen.push(nodes[node].clone()?);
            left &= !node;
        }
        Some(chosen)
    }

    /// The cheapest node for the pods at the positions of the bits of `set`.
    fn node_of(&mut self, template: TemplateId, pods: &[ClassId], set: usize) -> Option<Node> {
        let mut members = Members::new();
        for (_, class) in pods.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1) {
            if !self.rules.allow(&members, *class) {
                return None;
            }
            add_member(&mut members, *class, 1);
        }
        let (spec, used) = self.spec_with(template, &Pins::new(), &members)?;
        let price = self.quotes.price(self.assignment, spec, &used)?;
        Some(Node {
            template,
            pins: Pins::new(),
            origin: None,
            fixed: Members::new(),
            loose: members,
            price,
        })
    }
}
