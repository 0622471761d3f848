//! What the provider finds out about the cluster (section 25 of `docs/behaviour/aws.md`).

/// First and last minor version that is supported.
const MINORS: (u32, u32) = (26, 36);

/// A version of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl ClusterVersion {
    /// Reads `1.33`, `1.33.0` or `1.33+`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.trim_end_matches('+').parse().ok());
        Some(Self {
            major: parts.next()??,
            minor: parts.next()??,
        })
    }

    /// Whether the provider supports it.
    pub const fn is_supported(self) -> bool {
        self.major == 1 && self.minor >= MINORS.0 && self.minor <= MINORS.1
    }
}

impl std::fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The addresses of Services: the IPv4 range, else the IPv6 range (AWS-336).
pub fn cluster_cidr<'a>(ipv4: Option<&'a str>, ipv6: Option<&'a str>) -> Option<&'a str> {
    let given = |range: Option<&'a str>| range.filter(|range| !range.is_empty());
    given(ipv4).or_else(|| given(ipv6))
}

/// Whether the cluster has IPv6 addresses: that of its DNS Service says so (AWS-172).
pub fn is_ipv6(kube_dns: Option<&str>) -> bool {
    kube_dns.is_some_and(|address| address.contains(':'))
}
