//! Joins nodes of a plan that has more of them than it may have.

use crate::strategy::objective::Objective;
use crate::strategy::repacking::node::{Node, Pins};
use crate::strategy::repacking::recreate::Recreator;
use crate::strategy::repacking::rules::{Members, add_member};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Of more nodes than this, only the cheapest are joined. Bounds the work to about a thousand pairs of nodes.
const JOINED_MAX: usize = 48;

impl Recreator<'_, '_, '_, '_> {
    /// Joins two nodes at a time, first those that cost least more as one node. Ends where a plan of so many nodes may have them and joining saves
    /// nothing, or where each node beyond that number saves what it must. Returns whether any were joined.
    pub(super) fn join(&mut self, nodes: &mut Vec<Node>, objective: &Objective) -> bool {
        let mut counted = nodes.iter().filter(|node| objective.counts(node.template)).count();
        if objective.surcharge(counted) == 0 {
            return false;
        }
        nodes.sort_by_key(|node| (!objective.counts(node.template), node.price));
        let stay = nodes.split_off(counted.min(JOINED_MAX));
        let mut open: Vec<Option<Node>> = std::mem::take(nodes).into_iter().map(Some).collect();
        let mut pairs = BinaryHeap::new();
        for second in 1..open.len() {
            self.pair_up(&open, second, &mut pairs);
        }
        let mut any = false;
        while let Some(Reverse((more, first, second))) = pairs.pop() {
            let (Some(a), Some(b)) = (&open[first], &open[second]) else {
                continue;
            };
            if more >= objective.surcharge(counted) - objective.surcharge(counted - 1) {
                break;
            }
            let Some(joined) = self.joined(a, b) else { continue };
            (open[first], open[second]) = (None, None);
            open.push(Some(joined));
            (any, counted) = (true, counted - 1);
            self.pair_up(&open, open.len() - 1, &mut pairs);
        }
        nodes.extend(open.into_iter().flatten().chain(stay));
        any
    }

    /// Adds what a node and each earlier one would cost more if they were one.
    fn pair_up(&mut self, open: &[Option<Node>], second: usize, pairs: &mut BinaryHeap<Reverse<(i64, usize, usize)>>) {
        let Some(b) = &open[second] else { return };
        for (first, a) in open[..second].iter().enumerate() {
            if let Some(a) = a
                && let Some(joined) = self.joined(a, b)
            {
                let more = joined.price.saturating_sub(a.price).saturating_sub(b.price);
                pairs.push(Reverse((more, first, second)));
            }
        }
    }

    /// The cheapest node with the pods of two nodes. `None` where there is none, or pods would leave a node or domain they must stay in.
    fn joined(&mut self, a: &Node, b: &Node) -> Option<Node> {
        let (base, other) = if a.fixed.is_empty() { (b, a) } else { (a, b) };
        let pins = joined_pins(&base.pins, &other.pins)?;
        if base.template != other.template || !other.fixed.is_empty() {
            return None;
        }
        if !base.fixed.is_empty() && pins != base.pins {
            return None;
        }
        let (mut members, mut loose) = (base.fixed.clone(), Members::new());
        for (class, n) in base.loose.iter().chain(&other.loose) {
            if self.rules.unlimited(*class) {
                add_member(&mut members, *class, *n);
            } else {
                for _ in 0..*n {
                    if !self.rules.allow(&members, *class) {
                        return None;
                    }
                    add_member(&mut members, *class, 1);
                }
            }
            add_member(&mut loose, *class, *n);
        }
        let (spec, used) = self.spec_with(base.template, &pins, &members)?;
        Some(Node {
            template: base.template,
            price: self.quotes.price(self.assignment, spec, &used)?,
            pins,
            origin: base.origin,
            fixed: base.fixed.clone(),
            loose,
        })
    }
}

/// The domains of two nodes together, in the order of their keys. `None` where they are in different domains of a key.
fn joined_pins(a: &Pins, b: &Pins) -> Option<Pins> {
    let mut joined = a.clone();
    for pin in b {
        match a.iter().find(|other| other.0 == pin.0) {
            Some(same) if same.1 == pin.1 => {}
            Some(_) => return None,
            None => joined.push(*pin),
        }
    }
    joined.sort_unstable();
    Some(joined)
}
