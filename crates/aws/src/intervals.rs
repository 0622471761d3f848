//! How long answers of AWS stay valid and how often controllers run (section 32 of `docs/behaviour/aws.md`).

use kerf_model::in_flight::WITHOUT_CAPACITY_MAX;
use std::time::Duration;

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

const fn hours(count: u64) -> Duration {
    minutes(count * 60)
}

/// Images and subnets of a class; the options `--ami-refresh-interval` and `--subnet-refresh-interval` raise it (AWS-422).
pub const SELECTED: Duration = minutes(1);
/// Security groups, launch templates, reservation queries, freshness of placement groups, missing roles, and the guard against creating a
/// profile twice (AWS-423).
pub const SHORT_LIVED: Duration = minutes(1);
/// Until a launch template is deleted that may exist: its creation or deletion failed, or EC2 did not show it to a launch. A permission that is
/// missing for good costs few calls, and templates stay far from the 5,000 that a region allows.
pub const TEMPLATE_MAY_REMAIN: Duration = minutes(5);
/// Offerings without capacity (AWS-424).
pub const UNAVAILABLE_OFFERINGS: Duration = minutes(3);
/// Offerings without capacity that launches found so again and again: each time twice as long as before, up to this. A pool of capacity
/// that comes back is used within this time, and an hour without capacity costs seven attempts instead of twenty.
pub const UNAVAILABLE_OFFERINGS_MAX: Duration = WITHOUT_CAPACITY_MAX;
/// Removal of expired unavailable offerings, so that they are tried again promptly (AWS-424).
pub const UNAVAILABLE_SWEEP: Duration = Duration::from_secs(10);
/// Instance types, offerings, prices of overlays, free addresses, custom SSM parameters (AWS-425).
pub const INSTANCE_TYPES: Duration = minutes(5);
/// Instance profiles (AWS-426).
pub const INSTANCE_PROFILES: Duration = minutes(15);
/// Results of dry runs (AWS-427).
pub const VALIDATION: Duration = minutes(30);
/// Profiles that garbage collection must spare although no class names them yet (AWS-428).
pub const PROTECTED_PROFILES: Duration = hours(1);
/// Image ids of aliases, free capacity of reservations, placement groups (AWS-429).
pub const LONG_LIVED: Duration = hours(24);
/// Memory that registered nodes reported (AWS-430).
pub const DISCOVERED_MEMORY: Duration = hours(24 * 60);
/// How long an instance is kept for a claim whose provider id could not be stored: as long as the answer of its launch is (OPS-103).
pub const LAUNCHED_FOR: Duration = hours(1);
/// Instances whose end was reported: EC2 shows a terminated instance for about an hour.
pub const REPORTED_ENDS: Duration = hours(1);
/// Removal of expired entries in all other caches (AWS-432).
pub const SWEEP: Duration = minutes(1);

/// Prices, and descriptions of instance types (AWS-433).
pub const PRICES_AND_TYPES_PERIOD: Duration = hours(12);
/// Version of the cluster (AWS-434).
pub const VERSION_PERIOD: Duration = minutes(5);
/// Check of cached image ids for deprecation, and garbage collection of profiles (AWS-435).
pub const SSM_AND_PROFILE_PERIOD: Duration = minutes(30);
/// Garbage collection of instances after start, when a crash may have left some (AWS-436).
pub const INSTANCE_GC_FIRST_PERIOD: Duration = Duration::from_secs(10);
/// Passes of garbage collection at the first period.
pub const INSTANCE_GC_FIRST_PASSES: u32 = 20;
/// Garbage collection of instances after that.
pub const INSTANCE_GC_PERIOD: Duration = minutes(2);
/// Capacity reservations, gauges of offerings, status of instances (AWS-437).
pub const MINUTE_PERIOD: Duration = minutes(1);
/// Status of instances while it may not be described (deviation at AWS-322).
pub const DENIED_POLL_PERIOD: Duration = minutes(15);
/// Zonal shifts (AWS-438).
pub const ZONAL_SHIFT_PERIOD: Duration = Duration::from_secs(30);
/// A class whose dependencies are missing, and one that waits for validation (AWS-440).
pub const NODE_CLASS_PERIOD: Duration = minutes(1);
/// Validation of a class (AWS-440).
pub const VALIDATION_PERIOD: Duration = minutes(10);

/// The period of instance garbage collection after so many successful passes (AWS-325, AWS-436).
pub const fn instance_gc_period(passes: u32) -> Duration {
    if passes < INSTANCE_GC_FIRST_PASSES {
        INSTANCE_GC_FIRST_PERIOD
    } else {
        INSTANCE_GC_PERIOD
    }
}
