//! Good values of pods and unit prices, found by linear programs in floating point. The proof does not depend on their precision.

use crate::bound::filling_value::filling_value;
use crate::bound::machines::{Machine, Shape};
use microlp::{ComparisonOp, OptimizationDirection, Problem as LinearProgram};

/// The largest number of times the values are improved. Bounds the work: after fewer rounds the bound is lower, and still proved.
const ROUNDS_MAX: usize = 60;
/// The largest number of shapes times rounds in which values are improved for whole pods. With many shapes a round takes long, and pods of so many
/// sizes leave little room unused.
const WHOLE_ROUNDS_WORK: usize = 3_000;
/// The largest number of fillings added per round, the most violated first.
const CUTS_MAX: usize = 24;
/// A filling may be worth this much more than its machine, relative to the price.
const TOLERANCE: f64 = 1e-7;

/// A way to fill a machine: pods of each shape, and the price.
pub(super) struct Filling {
    pods: Vec<(usize, f64)>,
    price: f64,
}

impl Filling {
    /// What the pods are worth.
    fn worth(&self, values: &[f64]) -> f64 {
        self.pods.iter().map(|(shape, n)| values[*shape] * n).sum()
    }

    /// The same without parts of pods; `None` if no pod is left.
    fn rounded_down(self) -> Option<Self> {
        let whole = self.pods.into_iter().map(|(shape, n)| (shape, (n + 1e-9).floor()));
        let pods: Vec<(usize, f64)> = whole.filter(|(_, n)| *n >= 1.0).collect();
        (!pods.is_empty()).then_some(Self { pods, ..self })
    }
}

/// Values of the shapes, in 10⁻¹² dollars per hour, under which hardly any filling of a machine with fractions of pods is worth more than the
/// machine, and the fillings that they were found with.
pub(super) fn pod_values(shapes: &[Shape], machines: &[Machine]) -> (Vec<f64>, Vec<Filling>) {
    let alone = (0..shapes.len()).filter_map(|shape| cheapest_alone(shapes, machines, shape));
    improve(shapes, machines, alone.collect(), ROUNDS_MAX, &|machine, values| {
        most_valuable(shapes, machine, values)
    })
}

/// The same for fillings with whole pods. Begins with the fillings with fractions, rounded down.
pub(super) fn whole_pod_values(shapes: &[Shape], machines: &[Machine], fillings: Vec<Filling>) -> Vec<f64> {
    let whole = fillings.into_iter().filter_map(Filling::rounded_down).collect();
    let most_valuable_whole = |machine: &Machine, values: &[f64]| {
        let enough = i128::from(machine.price);
        let found = filling_value(shapes, machine, &in_integers(values), enough);
        match found.best {
            Some(pods) => Some(Filling {
                pods: pods.into_iter().map(|(shape, n)| (shape, f64::from(n))).collect(),
                price: machine.price as f64,
            }),
            None if found.at_most <= enough + 1 => None,
            // The search found nothing and did not prove that there is nothing.
            None => most_valuable(shapes, machine, values),
        }
    };
    let rounds = (WHOLE_ROUNDS_WORK / shapes.len().max(1)).min(ROUNDS_MAX);
    improve(shapes, machines, whole, rounds, &most_valuable_whole).0
}

/// Values in integers, none below zero.
pub(super) fn in_integers(values: &[f64]) -> Vec<i128> {
    values.iter().map(|value| value.max(0.0) as i128).collect()
}

/// Values under which hardly any filling of a machine is worth more than the machine: the most violated fillings are added to the program until
/// there are none.
fn improve(
    shapes: &[Shape],
    machines: &[Machine],
    mut fillings: Vec<Filling>,
    rounds: usize,
    most_valuable: &dyn Fn(&Machine, &[f64]) -> Option<Filling>,
) -> (Vec<f64>, Vec<Filling>) {
    let mut values = vec![0.0; shapes.len()];
    for _ in 0..rounds {
        let Some(found) = maximise(shapes, &fillings) else {
            break;
        };
        values = found;
        let mut violated: Vec<(f64, Filling)> = machines
            .iter()
            .filter(|machine| machine.price > 0)
            .filter_map(|machine| most_valuable(machine, &values))
            .map(|filling| (filling.worth(&values) / filling.price, filling))
            .filter(|(ratio, _)| *ratio > 1.0 + TOLERANCE)
            .collect();
        if violated.is_empty() {
            break;
        }
        violated.sort_by(|a, b| b.0.total_cmp(&a.0));
        fillings.extend(violated.into_iter().take(CUTS_MAX).map(|(_, filling)| filling));
    }
    (values, fillings)
}

/// The machine with the lowest price per pod of one shape, filled with that shape. Keeps the program bounded.
fn cheapest_alone(shapes: &[Shape], machines: &[Machine], shape: usize) -> Option<Filling> {
    let pods = |machine: &Machine| {
        let requests = shapes[shape].requests.iter().zip(&machine.room);
        let asked = requests.filter(|(request, _)| **request > 0);
        let fitting = asked.map(|(request, room)| *room as f64 / *request as f64);
        fitting.fold(f64::from(shapes[shape].per_machine), f64::min)
    };
    let able = machines.iter().filter(|machine| machine.shapes.get(shape));
    let per_pod = |machine: &&Machine| machine.price as f64 / pods(machine).max(1e-9);
    let best = able.min_by(|a, b| per_pod(a).total_cmp(&per_pod(b)))?;
    Some(Filling {
        pods: vec![(shape, pods(best))],
        price: best.price as f64,
    })
}

/// The values with the highest total under which no filling is worth more than its machine.
fn maximise(shapes: &[Shape], fillings: &[Filling]) -> Option<Vec<f64>> {
    let dearest = fillings.iter().map(|filling| filling.price).fold(1.0, f64::max);
    let all: f64 = shapes.iter().map(|shape| f64::from(shape.count)).sum();
    let mut program = LinearProgram::new(OptimizationDirection::Maximize);
    let variables: Vec<_> = shapes
        .iter()
        .map(|shape| program.add_var(f64::from(shape.count) / all, (0.0, f64::INFINITY)))
        .collect();
    for filling in fillings {
        let row: Vec<_> = filling.pods.iter().map(|(shape, n)| (variables[*shape], *n)).collect();
        program.add_constraint(&row, ComparisonOp::Le, filling.price / dearest);
    }
    let solution = program.solve().ok()?.into_solution().ok()?;
    Some(
        variables
            .iter()
            .map(|variable| solution.var_value(*variable) * dearest)
            .collect(),
    )
}

/// The most valuable filling of a machine with fractions of pods.
fn most_valuable(shapes: &[Shape], machine: &Machine, values: &[f64]) -> Option<Filling> {
    let price = machine.price as f64;
    let mut program = LinearProgram::new(OptimizationDirection::Maximize);
    let wanted: Vec<usize> = machine.shapes.iter().filter(|shape| values[*shape] > 0.0).collect();
    let variables: Vec<_> = wanted
        .iter()
        .map(|shape| program.add_var(values[*shape] / price, (0.0, f64::from(shapes[*shape].per_machine))))
        .collect();
    for (resource, room) in machine.room.iter().enumerate() {
        let share = |shape: usize| shapes[shape].requests[resource] as f64 / (*room).max(1) as f64;
        let row: Vec<_> = variables
            .iter()
            .zip(&wanted)
            .filter(|(_, shape)| shapes[**shape].requests[resource] > 0)
            .map(|(variable, shape)| (*variable, share(*shape)))
            .collect();
        if !row.is_empty() {
            program.add_constraint(&row, ComparisonOp::Le, 1.0);
        }
    }
    let solution = program.solve().ok()?.into_solution().ok()?;
    let pods = variables.iter().zip(&wanted);
    let pods: Vec<(usize, f64)> = pods
        .map(|(variable, shape)| (*shape, solution.var_value(*variable)))
        .filter(|(_, n)| *n > 0.0)
        .collect();
    Some(Filling { pods, price })
}

/// Unit prices, in 10⁻¹² dollars per hour, at which the room of a machine and what pods are worth beyond them is worth least. Zeros where the
/// program has no solution.
pub(super) fn fill_prices(shapes: &[Shape], machine: &Machine, values: &[i128]) -> Vec<f64> {
    let wanted: Vec<usize> = machine.shapes.iter().filter(|shape| values[*shape] > 0).collect();
    let scale = wanted.iter().map(|shape| values[*shape] as f64).fold(1.0, f64::max);
    let mut program = LinearProgram::new(OptimizationDirection::Minimize);
    // The unit of a resource is the room of the machine.
    let prices: Vec<_> = machine
        .room
        .iter()
        .map(|_| program.add_var(1.0, (0.0, f64::INFINITY)))
        .collect();
    for shape in wanted {
        let count = f64::from(shapes[shape].per_machine);
        let beyond = program.add_var(count, (0.0, f64::INFINITY));
        let share = |resource: usize| shapes[shape].requests[resource] as f64 / machine.room[resource].max(1) as f64;
        let mut row: Vec<_> = (0..prices.len())
            .filter(|resource| shapes[shape].requests[*resource] > 0)
            .map(|resource| (prices[resource], share(resource)))
            .collect();
        row.push((beyond, 1.0));
        program.add_constraint(&row, ComparisonOp::Ge, values[shape] as f64 / scale);
    }
    let Some(solution) = program.solve().ok().and_then(|solved| solved.into_solution().ok()) else {
        return vec![0.0; machine.room.len()];
    };
    let rooms = prices.iter().zip(&machine.room);
    rooms
        .map(|(price, room)| solution.var_value(*price) * scale / (*room).max(1) as f64)
        .collect()
}
