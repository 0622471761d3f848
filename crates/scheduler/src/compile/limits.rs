//! Pool limits (section 11.4 of `docs/behaviour/scheduling.md`): what the claims of a pass leave of them.

use crate::compile::catalogue::TypeRow;
use crate::compile::templates::{LimitedResource, Template, TemplateId};
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use kerf_model::intern::sym;
use kerf_model::resources::Resources;
use smallvec::SmallVec;
use std::sync::Arc;

/// Amounts of the limited resources of a template, in their order.
pub(crate) type LimitAmounts = SmallVec<[i64; 3]>;

/// The remaining amounts per template, in the order of its limited resources.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    left: IdVec<Template, Vec<i64>>,
}

/// The rows a new claim of a template may use.
#[derive(Debug)]
pub(crate) enum RowsWithinLimits {
    /// Limits exclude no row.
    All,
    /// Only these rows; possibly none.
    Rows(IdSet<TypeRow>),
    /// The limit on the number of nodes is reached.
    NoNode,
}

impl Limits {
    /// What every pool has left. `freed` is added back by the pool's name.
    pub(crate) fn new(templates: &IdVec<Template, Template>, freed: &[(Arc<str>, Resources)]) -> Self {
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

    /// The remaining amounts of a template, in the order of its limited resources.
    pub(crate) fn left(&self, template: TemplateId) -> &[i64] {
        &self.left[template]
    }

    /// The rows a new claim of a template may use (SCH-146, SCH-147).
    pub(crate) fn within(&self, templates: &IdVec<Template, Template>, template: TemplateId) -> RowsWithinLimits {
        let limited = templates[template].limited.iter().zip(&self.left[template]);
        if limited
            .clone()
            .any(|(limit, left)| limit.name == sym::NODES && *left == 0)
        {
            return RowsWithinLimits::NoNode;
        }
        rows_within(&templates[template], limited.map(|(limit, left)| (limit, *left)))
    }

    /// The rows an open claim of a template may use that uses these amounts now.
    pub(crate) fn within_besides(
        &self,
        templates: &IdVec<Template, Template>,
        template: TemplateId,
        used: &[i64],
    ) -> RowsWithinLimits {
        let left = self.left[template].iter().zip(used);
        let left = left.map(|(left, used)| left.saturating_add(*used));
        rows_within(&templates[template], templates[template].limited.iter().zip(left))
    }

    /// Replaces what a claim of a template uses.
    pub(crate) fn exchange(&mut self, template: TemplateId, before: &[i64], after: &[i64]) {
        for (left, before) in self.left[template].iter_mut().zip(before) {
            *left = left.saturating_add(*before);
        }
        for (left, after) in self.left[template].iter_mut().zip(after) {
            *left = left.saturating_sub(*after);
        }
    }

    /// Returns whether limits exclude some row that a pool could otherwise use.
    pub(crate) fn bind(&self, templates: &IdVec<Template, Template>) -> bool {
        self.left
            .ids()
            .any(|template| matches!(self.within(templates, template), RowsWithinLimits::Rows(_)))
    }

    /// Returns whether these limits leave more of some resource than `other`.
    pub(crate) fn leave_more_than(&self, other: &Self) -> bool {
        let pairs = self.left.iter().flatten().zip(other.left.iter().flatten());
        pairs.into_iter().any(|(mine, others)| mine > others)
    }

    /// Subtracts the largest of `rows` for a new claim (SCH-148), and one node (SCH-149).
    pub(crate) fn take(&mut self, templates: &IdVec<Template, Template>, template: TemplateId, rows: &IdSet<TypeRow>) {
        for (limit, left) in templates[template].limited.iter().zip(&mut self.left[template]) {
            let largest = || {
                limit
                    .largest
                    .iter()
                    .find(|(_, row)| rows.get(*row))
                    .map_or(0, |(capacity, _)| *capacity)
            };
            *left = left.saturating_sub(if limit.name == sym::NODES { 1 } else { largest() });
        }
    }
}

/// The rows of a template that need no more than what is left of each of these limits.
fn rows_within<'x>(template: &Template, limits: impl Iterator<Item = (&'x LimitedResource, i64)>) -> RowsWithinLimits {
    let mut rows: Option<IdSet<TypeRow>> = None;
    for (limit, left) in limits {
        let all = left >= 0 && limit.largest.first().is_none_or(|(capacity, _)| *capacity <= left);
        if all || (limit.name == sym::NODES && left > 0) {
            continue;
        }
        let rows = rows.get_or_insert_with(|| template.rows.clone());
        for (_, row) in limit
            .largest
            .iter()
            .take_while(|(capacity, _)| left < 0 || *capacity > left)
        {
            rows.remove(*row);
        }
    }
    rows.map_or(RowsWithinLimits::All, RowsWithinLimits::Rows)
}
