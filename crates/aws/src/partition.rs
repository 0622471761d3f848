//! Partitions of AWS: groups of regions with accounts, ARNs and endpoints of their own.

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The name, as it stands in ARNs.
    pub name: &'static str,
    /// How names of its regions begin; empty for the partition of all others.
    region_prefix: &'static str,
    /// How names of its endpoints end, and of the principals of EC2.
    pub dns_suffix: &'static str,
    /// Whether an account of it can ask the Price List.
    pub has_price_list: bool,
}

const fn partition(name: &'static str, region_prefix: &'static str, dns_suffix: &'static str) -> Partition {
    Partition {
        name,
        region_prefix,
        dns_suffix,
        has_price_list: false,
    }
}

const COMMERCIAL: Partition = Partition {
    has_price_list: true,
    ..partition("aws", "", "amazonaws.com")
};

/// All partitions.
pub const PARTITIONS: [Partition; 8] = [
    COMMERCIAL,
    Partition {
        has_price_list: true,
        ..partition("aws-cn", "cn-", "amazonaws.com.cn")
    },
    partition("aws-us-gov", "us-gov-", "amazonaws.com"),
    partition("aws-eusc", "eusc-", "amazonaws.eu"),
    partition("aws-iso", "us-iso-", "c2s.ic.gov"),
    partition("aws-iso-b", "us-isob-", "sc2s.sgov.gov"),
    partition("aws-iso-e", "eu-isoe-", "cloud.adc-e.uk"),
    partition("aws-iso-f", "us-isof-", "csp.hci.ic.gov"),
];

impl Partition {
    /// The partition of a region.
    pub fn of_region(region: &str) -> Self {
        let own = PARTITIONS
            .into_iter()
            .find(|one| !one.region_prefix.is_empty() && region.starts_with(one.region_prefix));
        own.unwrap_or(COMMERCIAL)
    }

    /// The partition of this name.
    pub fn named(name: &str) -> Option<Self> {
        PARTITIONS.into_iter().find(|one| one.name == name)
    }
}
