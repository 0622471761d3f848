//! Pool limits (section 11.4): what the claims of a pass leave of them.

use crate::bits::Bits;
use crate::templates::Template;
use crate::world::World;
use kerf_model::intern::sym;
use kerf_model::resources::Resources;
use std::sync::Arc;

/// What is left per template, in the order of its limited resources.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    left: Vec<Vec<i64>>,
}

/// Which rows a new claim may use.
#[derive(Debug)]
pub(crate) enum Within {
    /// Limits rule none out.
    All,
    /// These, if any.
    Rows(Bits),
    /// The number of nodes is exhausted.
    NoNode,
}

impl Limits {
    /// What every pool has left, with what is `freed` by the pool's name.
    pub(crate) fn new(templates: &[Template], freed: &[(Arc<str>, Resources)]) -> Self {
        let left = |template: &Template| {
            let freed = freed.iter().filter(|(pool, _)| *pool == template.pool.name);
            let limits = template.limited.iter().map(|limit| {
                let back = freed.clone().map(|(_, freed)| freed.get(limit.name));
                back.fold(limit.left, i64::saturating_add)
            });
            limits.collect()
        };
        Self {
            left: templates.iter().map(left).collect(),
        }
    }

    /// What is left of a template's limits, in the order of its limited resources.
    pub(crate) fn left(&self, template: usize) -> &[i64] {
        &self.left[template]
    }

    /// SCH-146, SCH-147.
    pub(crate) fn within(&self, world: &World<'_>, template: usize) -> Within {
        let limited = world.templates[template].limited.iter().zip(&self.left[template]);
        if limited
            .clone()
            .any(|(limit, left)| limit.name == sym::NODES && *left == 0)
        {
            return Within::NoNode;
        }
        let mut rows: Option<Bits> = None;
        for (limit, left) in limited {
            let all = *left >= 0 && limit.largest.first().is_none_or(|(capacity, _)| capacity <= left);
            if all || (limit.name == sym::NODES && *left > 0) {
                continue;
            }
            let rows = rows.get_or_insert_with(|| world.templates[template].rows.clone());
            for (capacity, row) in &limit.largest {
                if *left < 0 || capacity > left {
                    rows.remove(*row as usize);
                }
            }
        }
        rows.map_or(Within::All, Within::Rows)
    }

    /// Whether limits rule out some row a pool could otherwise use.
    pub(crate) fn bind(&self, world: &World<'_>) -> bool {
        (0..self.left.len()).any(|template| matches!(self.within(world, template), Within::Rows(_)))
    }

    /// Whether these leave more of some resource than `other`.
    pub(crate) fn leave_more_than(&self, other: &Self) -> bool {
        let pairs = self.left.iter().flatten().zip(other.left.iter().flatten());
        pairs.into_iter().any(|(mine, others)| mine > others)
    }

    /// Takes the largest candidate of a new claim (SCH-148), and one node (SCH-149).
    pub(crate) fn take(&mut self, world: &World<'_>, template: usize, rows: &Bits) {
        for (limit, left) in world.templates[template].limited.iter().zip(&mut self.left[template]) {
            let largest = || {
                limit
                    .largest
                    .iter()
                    .find(|(_, row)| rows.get(*row as usize))
                    .map_or(0, |(capacity, _)| *capacity)
            };
            *left = left.saturating_sub(if limit.name == sym::NODES { 1 } else { largest() });
        }
    }
}
