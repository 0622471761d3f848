//! What the bound is computed from: shapes of pods, and the machines each may run on.

use crate::compile::catalogue::{Offer, OfferId};
use crate::compile::classes::ClassId;
use crate::compile::problem::Problem;
use crate::compile::templates::TemplateId;
use crate::compile::topology::TopologyKey;
use crate::dense::amounts::{Amounts, fits};
use crate::dense::bits::Bits;
use crate::dense::id_set::IdSet;
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
    /// Their class if no two of them may run on the same machine.
    apart: Option<ClassId>,
}

/// The shapes of the pods of an instance.
pub(super) fn shapes(instance: &Instance<'_>) -> Shapes {
    let problem = &instance.problem;
    let mut assignment = Assignment::new(instance);
    let mut counts: BTreeMap<ClassId, u32> = BTreeMap::new();
    for class in problem.queue.iter().filter_map(|pod| problem.of_pod[*pod]) {
        *counts.entry(class).or_default() += 1;
    }
    let mut by_content: BTreeMap<Content, u32> = BTreeMap::new();
    for (class, count) in counts {
        let offers = problem
            .templates
            .ids()
            .map(|template| allowed(&mut assignment, class, template));
        let offers: Vec<Vec<OfferId>> = offers.map(|offers| offers.iter().collect()).collect();
        let apart = repels_itself(problem, class).then_some(class);
        let content = Content {
            requests: problem.requests(class).clone(),
            offers,
            apart,
        };
        *by_content.entry(content).or_default() += count;
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
            per_machine: if content.apart.is_some() { 1 } else { count },
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

/// Whether no two pods of a class may run on the same machine: they use a port of it, or have a required anti-affinity to each other there.
fn repels_itself(problem: &Problem<'_>, class: ClassId) -> bool {
    let class = problem.class(class);
    let mut own = class.inverse_groups.iter();
    !class.shape.host_ports.is_empty()
        || own
            .any(|id| class.repelling_groups.contains(id) && problem.groups.list[*id].identity.key == TopologyKey::Host)
}

/// The offers of a template that may hold a pod of a class at some level, apart from topology, ports, volumes and limits.
fn allowed(assignment: &mut Assignment<'_, '_>, class: ClassId, template: TemplateId) -> IdSet<Offer> {
    let problem = assignment.problem;
    let types = problem.types(template);
    let requests = problem.requests(class);
    let mut offers = IdSet::default();
    for level in problem.class(class).levels.iter() {
        if !level.tolerated.get(problem.templates[template].taints) {
            continue;
        }
        let initial = assignment.instance.initial_spec(template);
        let Some(spec) = assignment.specs.with_requirements(problem, initial, level.full) else {
            continue;
        };
        let spec = assignment.specs.get(spec);
        for offer in spec.offers.iter() {
            let row = types.offers[offer].row;
            let room: Amounts = problem.usable(template, row).collect();
            if spec.rows.get(row) && fits(requests, &room) {
                offers.insert(offer);
            }
        }
    }
    offers
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
