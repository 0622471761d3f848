//! Subnets: their order in the status of a class, the choice for a launch, and the addresses that launches on their way will take (AWS-062,
//! AWS-104 to AWS-108).

use crate::cache::Cache;
use crate::intervals::INSTANCE_TYPES;
use kerf_api::ec2_node_class::NodeClassSubnet;
use std::collections::BTreeMap;
use std::time::Duration;

/// How much longer than the interval of subnets a report counts (AWS-104).
const REPORT_MARGIN: Duration = Duration::from_secs(4 * 60);

/// A subnet as EC2 describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Id.
    pub id: String,
    /// Zone.
    pub zone: String,
    /// Id of the zone.
    pub zone_id: Option<String>,
    /// Free addresses.
    pub free_addresses: i64,
}

/// The subnets as the status of a class lists them: most free addresses first, then by id.
pub fn status_subnets(subnets: &[Subnet]) -> Vec<NodeClassSubnet> {
    let mut sorted: Vec<&Subnet> = subnets.iter().collect();
    sorted.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.id.cmp(&b.id)));
    sorted.dedup_by(|a, b| a.id == b.id);
    sorted
        .into_iter()
        .map(|subnet| NodeClassSubnet {
            id: subnet.id.clone(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
        })
        .collect()
}

/// A subnet chosen for a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenSubnet {
    /// Id.
    pub id: String,
    /// Addresses set aside for the launch.
    pub reserved: i64,
    /// Free addresses EC2 had reported when it was chosen.
    pub reported: i64,
}

/// Free addresses of subnets, with those that launches on their way will take.
#[derive(Debug)]
pub struct FreeAddresses {
    reported: Cache<String, i64>,
    expected: BTreeMap<String, i64>,
}

/// How long a report counts, if subnets are asked for this often: longer than from one report to the next (AWS-104).
pub fn report_lifetime(interval: Duration) -> Duration {
    (interval + REPORT_MARGIN).max(INSTANCE_TYPES)
}

impl FreeAddresses {
    /// No free addresses, and reports that count for so long.
    pub const fn new(lifetime: Duration) -> Self {
        Self {
            reported: Cache::new(lifetime),
            expected: BTreeMap::new(),
        }
    }

    /// Takes over what EC2 reports; it includes the launches so far. What is expected of subnets without a report ends.
    pub fn report(&mut self, subnets: &[Subnet]) {
        for subnet in subnets {
            self.reported.insert(subnet.id.clone(), subnet.free_addresses);
            self.expected.remove(&subnet.id);
        }
        let reported = &self.reported;
        self.expected.retain(|id, _| reported.get(id).is_some());
    }

    /// Number of subnets of which something is kept.
    pub fn kept(&self) -> usize {
        self.reported.kept().max(self.expected.len())
    }

    /// A subnet that had no address: another one of its zone is chosen next time.
    pub fn exhaust(&mut self, subnet: &str) {
        self.reported.insert(subnet.to_owned(), 0);
        self.expected.remove(subnet);
    }

    fn reported(&self, subnet: &str) -> i64 {
        self.reported.get(subnet).unwrap_or(0)
    }

    fn effective(&self, subnet: &str) -> i64 {
        self.expected
            .get(subnet)
            .copied()
            .unwrap_or_else(|| self.reported(subnet))
    }

    /// The subnet with most free addresses of each zone, with addresses set aside for the launch. `least_pods` gives the fewest pods of a
    /// type that can be launched in a zone.
    pub fn choose(
        &mut self,
        subnets: &[NodeClassSubnet],
        least_pods: impl Fn(&str) -> i64,
    ) -> BTreeMap<String, ChosenSubnet> {
        let mut best: BTreeMap<&str, &str> = BTreeMap::new();
        for subnet in subnets {
            let chosen = best.entry(&subnet.zone).or_insert(&subnet.id);
            if self.effective(&subnet.id) > self.effective(chosen) {
                *chosen = &subnet.id;
            }
        }
        let mut chosen = BTreeMap::new();
        for (zone, id) in best {
            let reserved = least_pods(zone);
            let left = self.effective(id) - reserved;
            self.expected.insert(id.to_owned(), left);
            let subnet = ChosenSubnet {
                id: id.to_owned(),
                reserved,
                reported: self.reported(id),
            };
            chosen.insert(zone.to_owned(), subnet);
        }
        chosen
    }

    /// Gives back the addresses of the subnets that a launch did not use; `used` is `None` if the call failed. A subnet that EC2 has
    /// described meanwhile counts already.
    pub fn settle(&mut self, chosen: &BTreeMap<String, ChosenSubnet>, used: Option<&str>) {
        for subnet in chosen.values() {
            if used == Some(subnet.id.as_str()) || self.reported(&subnet.id) != subnet.reported {
                continue;
            }
            if let Some(expected) = self.expected.get_mut(&subnet.id) {
                *expected += subnet.reserved;
            }
        }
    }
}
