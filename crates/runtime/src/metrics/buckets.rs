//! Bucket bounds of histograms, as section 8 of `docs/behaviour/operations.md` lists them.

/// Durations of scheduling and of pods in seconds: "D" of section 8 of `docs/behaviour/operations.md`.
pub const DURATION: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];
/// Durations of reconciliations in seconds: "D" up to 60 (OPS-176).
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
pub const RECONCILE: [f64; 40] = {
    let mut bounds = [0.0; 40];
    let mut index = 0;
    while index < bounds.len() {
        bounds[index] = DURATION[index];
        index += 1;
    }
    bounds
};
/// Seconds, as Prometheus clients use them by default: "P" of section 8 of `docs/behaviour/operations.md`.
pub const DEFAULT: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Termination of NodeClaims in seconds: 1, 2, 4 … 2048 (OPS-118).
pub const POWERS_1_TO_2048: [f64; 12] = exponential(1.0, 2.0);
/// Termination of instances in seconds: 1, 2, 4 … 1024 (OPS-119).
pub const POWERS_1_TO_1024: [f64; 11] = exponential(1.0, 2.0);
/// Lifetimes of nodes in seconds: a quarter of an hour to thirty days (OPS-125).
pub const LIFETIME: [f64; 21] = [
    900.0,
    1800.0,
    2700.0,
    3600.0,
    7200.0,
    14400.0,
    21600.0,
    28800.0,
    36000.0,
    43200.0,
    57600.0,
    72000.0,
    86400.0,
    172_800.0,
    259_200.0,
    432_000.0,
    864_000.0,
    1_296_000.0,
    1_728_000.0,
    2_160_000.0,
    2_592_000.0,
];
/// Scores of consolidation moves, without unit (OPS-164).
pub const SCORE: [f64; 8] = [0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];
/// How long conditions keep a status, in seconds: 0.5, 1, 2 … 8192 (OPS-170).
pub const STATUS: [f64; 15] = exponential(0.5, 2.0);
/// Times of work queues in seconds: 10 ns to 1000 s by factors of 10 (OPS-177).
pub const WORKQUEUE: [f64; 12] = exponential(1e-8, 10.0);
/// Requests to the API server in seconds: 1 ms to 2.2 s by factors of 1.5 (OPS-178).
pub const REQUEST: [f64; 20] = exponential(0.001, 1.5);

/// `N` bounds, the first of which is `start`; each is the one before times `factor`.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
pub const fn exponential<const N: usize>(start: f64, factor: f64) -> [f64; N] {
    let mut bounds = [start; N];
    let mut index = 1;
    while index < N {
        bounds[index] = bounds[index - 1] * factor;
        index += 1;
    }
    bounds
}
