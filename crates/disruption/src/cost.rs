//! The cost of moving pods, in exact integers (DIS-045 to DIS-049).

use jiff::Timestamp;
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;

/// A cost in units of 2⁻²⁷ plain pods, the smallest difference that deletion costs and priorities can make.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cost(i64);

const PLAIN: i64 = 1 << 27;

impl Cost {
    /// The cost of one plain pod, or of one node (DIS-045, DIS-047).
    pub const ONE: Self = Self(PLAIN);

    /// The cost of evicting a pod: 1 + deletion cost / 2²⁷ + priority / 2²⁵, clamped to ±10 (DIS-046).
    pub fn of_eviction(pod: &Pod) -> Self {
        let cost = PLAIN + i64::from(pod.deletion_cost) + i64::from(pod.priority) * 4;
        Self(cost.clamp(-10 * PLAIN, 10 * PLAIN))
    }

    /// The cost of disrupting a node from which these pods move (DIS-045).
    pub fn of_node<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> Self {
        let pods = pods.into_iter();
        Self::ONE + pods.map(|pod| Self::of_eviction(pod).or_zero()).sum()
    }

    /// The cost, or zero if it is negative.
    #[must_use]
    pub fn or_zero(self) -> Self {
        self.max(Self(0))
    }

    /// The difference to a smaller cost.
    #[must_use]
    pub(crate) const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// In plain pods.
    pub fn as_pods(self) -> f64 {
        self.0 as f64 / PLAIN as f64
    }

    /// In 2⁻²⁷ of a plain pod.
    pub const fn raw(self) -> i64 {
        self.0
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// The share of its lifetime that a node has left, from 1 (new, or never expires) to 0 (DIS-049).
pub fn lifetime_remaining(node: &Node, now: Timestamp) -> f64 {
    let Some(expires) = node.lifecycle.expires else {
        return 1.0;
    };
    let life = expires.duration_since(node.created).as_secs_f64();
    let left = expires.duration_since(now).as_secs_f64();
    if life <= 0.0 {
        0.0
    } else {
        (left / life).clamp(0.0, 1.0)
    }
}
