//! Subnets: order, choice, and free addresses.

use kerf_aws::subnet::{FreeAddresses, Subnet, report_lifetime, status_subnets};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn free() -> FreeAddresses {
    FreeAddresses::new(report_lifetime(MINUTE))
}

fn subnet(id: &str, zone: &str, free_addresses: i64) -> Subnet {
    Subnet {
        id: id.to_owned(),
        zone: zone.to_owned(),
        zone_id: Some(format!("id-{zone}")),
        free_addresses,
    }
}

/// The subnets chosen for each zone, each launch taking so many addresses.
fn choose(free: &mut FreeAddresses, subnets: &[Subnet], pods: i64) -> Vec<String> {
    free.choose(&status_subnets(subnets), |_| pods)
        .into_values()
        .map(|subnet| subnet.id)
        .collect()
}

// AWS-062
#[test]
fn the_status_lists_subnets_by_free_addresses() {
    let subnets = [subnet("s3", "a", 5), subnet("s2", "a", 9), subnet("s1", "b", 5)];
    let ids: Vec<String> = status_subnets(&subnets).into_iter().map(|subnet| subnet.id).collect();
    assert_eq!(ids, ["s2", "s1", "s3"]);
}

// AWS-105, AWS-106
#[test]
fn each_zone_uses_the_subnet_with_most_free_addresses() {
    let subnets = [subnet("s1", "a", 100), subnet("s2", "a", 90), subnet("s3", "b", 5)];
    let (mut free, mut fresh) = (free(), free());
    free.report(&subnets);
    assert_eq!(choose(&mut free, &subnets, 20), ["s1", "s3"]);
    // 20 addresses of s1 are set aside.
    assert_eq!(choose(&mut free, &subnets, 20), ["s2", "s3"]);
    assert_eq!(choose(&mut fresh, &subnets, 0), ["s1", "s3"]);
    assert!(choose(&mut free, &[], 20).is_empty());
}

// AWS-104
#[test]
fn a_report_of_ec2_counts_launches_itself() {
    let subnets = [subnet("s1", "a", 100), subnet("s2", "a", 90)];
    let mut free = self::free();
    free.report(&subnets);
    choose(&mut free, &subnets, 20);
    free.report(&subnets);
    assert_eq!(choose(&mut free, &subnets, 20), ["s1"]);
}

// AWS-104
#[tokio::test(start_paused = true)]
async fn a_report_counts_for_a_time() {
    assert_eq!(report_lifetime(MINUTE), 5 * MINUTE);
    assert_eq!(report_lifetime(10 * MINUTE), 14 * MINUTE);
    let subnets = [subnet("s1", "a", 100), subnet("gone", "a", 200)];
    let mut known = free();
    known.report(&subnets);
    tokio::time::advance(4 * MINUTE).await;
    known.report(&subnets[..1]);
    assert_eq!(choose(&mut known, &subnets, 20), ["gone"], "its report still counts");
    assert_eq!(known.kept(), 2);
    tokio::time::advance(MINUTE).await;
    known.report(&subnets[..1]);
    assert_eq!(choose(&mut known, &subnets, 20), ["s1"]);
    assert_eq!(known.kept(), 1);
    // Without any report nothing is known to be free.
    tokio::time::advance(5 * MINUTE).await;
    known.report(&[]);
    assert_eq!(
        choose(&mut known, &subnets, 0),
        ["gone"],
        "both have none: the first of the status"
    );
}

// AWS-107
#[test]
fn subnets_that_were_not_used_get_their_addresses_back() {
    let subnets = [
        subnet("s1", "a", 100),
        subnet("s2", "a", 90),
        subnet("s3", "b", 50),
        subnet("s4", "b", 45),
    ];
    let status = status_subnets(&subnets);
    let mut free = self::free();
    free.report(&subnets);
    let chosen = free.choose(&status, |_| 20);
    free.settle(&chosen, Some("s1"));
    assert_eq!(choose(&mut free, &subnets, 0), ["s2", "s3"]);
    // A call that failed used none.
    let chosen = free.choose(&status, |_| 60);
    free.settle(&chosen, None);
    assert_eq!(choose(&mut free, &subnets, 0), ["s2", "s3"]);
    // EC2 has described the subnets meanwhile.
    let chosen = free.choose(&status, |_| 60);
    free.report(&[subnet("s2", "a", 10)]);
    free.settle(&chosen, None);
    assert_eq!(choose(&mut free, &subnets, 0), ["s1", "s3"]);
}

// AWS-108
#[test]
fn a_full_subnet_is_avoided() {
    let subnets = [subnet("s1", "a", 100), subnet("s2", "a", 90)];
    let mut free = self::free();
    free.report(&subnets);
    free.exhaust("s1");
    assert_eq!(choose(&mut free, &subnets, 20), ["s2"]);
}
