//! Label keys and their fixed values (API-153 to API-162). Which labels users may set is decided in `label_rules`.

/// Name of the owning NodePool; absent on standalone claims (API-153).
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved` (API-154).
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a Node once it is registered; never on a claim (API-155).
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a Node once it is initialised; never on a claim (API-156).
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a Node before registration keeps the claim's taints away from it (API-157).
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Takes a Node out of external load balancers while it terminates (API-159).
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The value written to [`EXCLUDE_FROM_LOAD_BALANCERS`].
pub const EXCLUDE_FROM_LOAD_BALANCERS_VALUE: &str = "karpenter";

/// Availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Name of the instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Processor architecture, in Go's names.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system, in Go's names.
pub const OS: &str = "kubernetes.io/os";
/// Windows build number.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Name of the host; restricted everywhere (API-148).
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// The label value that means yes.
pub const TRUE: &str = "true";

/// Capacity that can be taken back at short notice.
pub const CAPACITY_TYPE_SPOT: &str = "spot";
/// Capacity at list price.
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
/// Capacity that is paid for already.
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

/// Labels every provider knows (API-160, SCH-107), in byte order.
pub const WELL_KNOWN: [&str; 8] = [
    CAPACITY_TYPE,
    NODE_POOL,
    ARCH,
    OS,
    INSTANCE_TYPE,
    WINDOWS_BUILD,
    REGION,
    ZONE,
];

/// Well-known labels that an offering, not an instance type, decides (API-161).
pub const OFFERING: [&str; 2] = [CAPACITY_TYPE, ZONE];

/// Keys that exist during scheduling so that DaemonSets selecting them count, and never reach a claim (SCH-112).
pub const SIMULATION: [&str; 2] = [REGISTERED, INITIALIZED];

/// Values of [`CAPACITY_TYPE`] that mean something (SCH-111), in byte order.
pub const CAPACITY_TYPES: [&str; 3] = [CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT];

/// Deprecated keys and what they are read as (API-162, SCH-099).
pub const NORMALIZED: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("beta.kubernetes.io/os", OS),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
];

/// Labels of the simulated provider.
pub mod kwok {
    /// CPU count of the instance type, as canonical quantity text.
    pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
    /// Memory of the instance type, as canonical quantity text.
    pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";
    /// Family of the instance type.
    pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
    /// Size of the instance type.
    pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
    /// Name of the KWOKNodeClass (API-158).
    pub const NODE_CLASS: &str = "karpenter.kwok.sh/kwoknodeclass";

    /// Labels this provider adds to the well-known ones (KWK-004), in byte order.
    pub const WELL_KNOWN: [&str; 4] = [INSTANCE_CPU, INSTANCE_FAMILY, INSTANCE_MEMORY, INSTANCE_SIZE];
}
