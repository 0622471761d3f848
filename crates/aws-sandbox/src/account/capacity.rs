//! How many instances a pool has room for. A pool is an instance type in a zone, bought one way.

use std::collections::BTreeMap;

/// How an instance is bought, as far as pools go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purchase {
    /// Spot.
    Spot,
    /// On demand.
    OnDemand,
    /// From a capacity reservation or block.
    Reserved,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pool {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// How instances are bought.
    pub purchase: Purchase,
}

/// A rule about pools: what it leaves open holds for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRule {
    /// Instance type, or a pattern such as `m5.*`.
    pub instance_type: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// How instances are bought.
    pub purchase: Option<Purchase>,
    /// How many instances may run in each such pool.
    pub capacity: u32,
    /// The code of the refusal.
    pub code: String,
}

impl PoolRule {
    /// No pool has room.
    pub fn empty() -> Self {
        Self {
            instance_type: None,
            zone: None,
            purchase: None,
            capacity: 0,
            code: "InsufficientInstanceCapacity".to_owned(),
        }
    }

    /// The same for one type, or the types of a pattern.
    #[must_use]
    pub fn of_type(mut self, pattern: &str) -> Self {
        self.instance_type = Some(pattern.to_owned());
        self
    }

    /// The same for one zone.
    #[must_use]
    pub fn in_zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }

    /// The same for one way to buy.
    #[must_use]
    pub fn bought(mut self, purchase: Purchase) -> Self {
        self.purchase = Some(purchase);
        self
    }

    /// The same with room for some instances.
    #[must_use]
    pub fn with_capacity(mut self, capacity: u32) -> Self {
        self.capacity = capacity;
        self
    }

    /// The same with another code.
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    fn is_about(&self, pool: &Pool) -> bool {
        let pattern = self.instance_type.as_deref();
        pattern.is_none_or(|pattern| super::filters::matches(pattern, &pool.instance_type))
            && self.zone.as_ref().is_none_or(|zone| *zone == pool.zone)
            && self.purchase.is_none_or(|purchase| purchase == pool.purchase)
    }
}

/// The room of all pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// Rules; the first about a pool counts. A pool without rule has room for any number.
    pub rules: Vec<PoolRule>,
}

impl Pools {
    /// How many more instances fit into a pool in which so many run. Instead of zero, the error is the code of the refusal.
    pub(super) fn room(&self, pool: &Pool, running: &BTreeMap<Pool, u32>) -> Result<u32, &str> {
        let Some(rule) = self.rules.iter().find(|rule| rule.is_about(pool)) else {
            return Ok(u32::MAX);
        };
        match rule.capacity.saturating_sub(running.get(pool).copied().unwrap_or(0)) {
            0 => Err(&rule.code),
            room => Ok(room),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_about_a_pool_counts() {
        let pool = |kind: &str, zone: &str, purchase| Pool {
            instance_type: kind.to_owned(),
            zone: zone.to_owned(),
            purchase,
        };
        let pools = Pools {
            rules: vec![
                PoolRule::empty().of_type("m5.large").with_capacity(2),
                PoolRule::empty().of_type("m5.*").in_zone("a").with_code("Unsupported"),
                PoolRule::empty().bought(Purchase::Spot),
            ],
        };
        let running = BTreeMap::from([(pool("m5.large", "b", Purchase::OnDemand), 1)]);
        let room = |kind, zone, purchase| pools.room(&pool(kind, zone, purchase), &running);
        assert_eq!(room("m5.large", "a", Purchase::Spot), Ok(2));
        assert_eq!(room("m5.large", "b", Purchase::OnDemand), Ok(1));
        assert_eq!(room("m5.xlarge", "a", Purchase::OnDemand), Err("Unsupported"));
        assert_eq!(room("m5.xlarge", "b", Purchase::OnDemand), Ok(u32::MAX));
        assert_eq!(
            room("c5.large", "b", Purchase::Spot),
            Err("InsufficientInstanceCapacity")
        );
    }
}
