//! What the bound is computed from: shapes of pods, and the machines each may run on.

use crate::bound::parts::{ClassCounts, parts};
use crate::compile::catalogue::OfferId;
use crate::compile::classes::ClassId;
use crate::compile::templates::TemplateId;
use crate::dense::amounts::{Amounts, fits};
use crate::dense::bits::Bits;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use std::collections::BTreeMap;

/// Pods with equal requests that may run on the same machines.
pub(super) struct Shape {
    pub(super) requests: Amounts,
    pub(super) count: u32,
    /// How many of them one machine may run, whatever its room.
    pub(super) per_machine: u32,
}

/// A machine that may be launched, or a node that exists.
pub(super) struct Machine {
    /// In 10⁻¹² dollars per hour; zero for a node that exists.
    pub(super) price: i64,
    /// What pods may use.
    pub(super) room: Amounts,
    /// The shapes it may run.
    pub(super) shapes: Bits,
}

/// The shapes of all pods, and where they may run.
pub(super) struct Shapes {
    pub(super) shapes: Vec<Shape>,
    pub(super) machines: Vec<Machine>,
    pub(super) existing: Vec<Machine>,
}

/// What pods of one shape have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Content {
    requests: Amounts,
    /// The offers they may run on, by template.
    offers: Vec<Vec<OfferId>>,
    /// Their class, if a machine may run fewer of them than it has room for, and how many.
    limited: Option<(ClassId, u32)>,
}

/// The shapes of the pods of an instance.
pub(super) fn shapes(instance: &Instance<'_>) -> Shapes {
    let problem = &instance.problem;
    let mut assignment = Assignment::new(instance);
    let mut counts = ClassCounts::new();
    for class in problem.queue.iter().filter_map(|pod| problem.of_pod[*pod]) {
        *counts.entry(class).or_default() += 1;
    }
    let mut by_content: BTreeMap<Content, u32> = BTreeMap::new();
    for class in counts.keys() {
        for part in parts(&mut assignment, &counts, *class) {
            let content = Content {
                requests: part.requests,
                offers: part.offers,
                limited: (part.per_machine < part.count).then_some((*class, part.per_machine)),
            };
            *by_content.entry(content).or_default() += part.count;
        }
    }
    let mut machines: BTreeMap<(TemplateId, OfferId), Bits> = BTreeMap::new();
    for (shape, content) in by_content.keys().enumerate() {
        for (template, offers) in problem.templates.ids().zip(&content.offers) {
            for offer in offers {
                machines.entry((template, *offer)).or_default().insert(shape);
            }
        }
    }
    let shapes: Vec<Shape> = by_content
        .into_iter()
        .map(|(content, count)| Shape {
            requests: content.requests,
            count,
            per_machine: content.limited.map_or(count, |(_, most)| most),
        })
        .collect();
    let room = |amounts: &mut dyn Iterator<Item = i64>| amounts.map(|amount| amount.max(0)).collect::<Amounts>();
    let machine = |((template, offer), shapes): ((TemplateId, OfferId), Bits)| {
        let offer = &problem.types(template).offers[offer];
        Machine {
            price: offer.price.pico(),
            room: room(&mut problem.usable(template, offer.row)),
            shapes,
        }
    };
    let machines = undominated(machines.into_iter().map(machine).collect());
    let existing = problem.open.iter().map(|at| {
        let room = room(&mut problem.targets.placeable(at).iter().copied());
        let fitting = (0..shapes.len()).filter(|shape| fits(&shapes[*shape].requests, &room));
        Machine {
            price: 0,
            shapes: fitting.collect(),
            room,
        }
    });
    let existing = existing.filter(|node| !node.shapes.is_empty()).collect();
    Shapes {
        shapes,
        machines,
        existing,
    }
}

/// The machines without those that another one replaces for every shape at no higher price.
fn undominated(mut machines: Vec<Machine>) -> Vec<Machine> {
    machines.sort_by(|a, b| a.price.cmp(&b.price).then_with(|| b.room.cmp(&a.room)));
    let mut kept: Vec<Machine> = Vec::new();
    for machine in machines {
        let replaces = |known: &Machine| {
            machine.room.iter().zip(&known.room).all(|(mine, known)| mine <= known)
                && machine.shapes.iter().all(|shape| known.shapes.get(shape))
        };
        if !kept.iter().any(replaces) {
            kept.push(machine);
        }
    }
    kept
}
