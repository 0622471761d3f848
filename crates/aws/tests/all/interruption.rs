//! Messages of the interruption queue and polled instance status.

use jiff::{SignedDuration, Timestamp};
use kerf_aws::interruption::{
    StatusCategory, StatusDetail, UnhealthyCounts, finding, is_event_due, parse, status_queries,
};
use kerf_cloud::InterruptionKind;
use serde_json::json;

fn event(source: &str, detail_type: &str, detail: serde_json::Value) -> String {
    json!({
        "version": "0",
        "source": source,
        "detail-type": detail_type,
        "id": "1",
        "account": "123456789012",
        "region": "us-east-1",
        "time": "2026-01-01T00:00:00Z",
        "resources": [],
        "detail": detail,
    })
    .to_string()
}

// AWS-303
#[test]
fn events_are_recognised_by_source_and_type() {
    let state = |state: &str| json!({"instance-id": "i-1", "state": state});
    let change = "EC2 Instance State-change Notification";
    let health = |service: &str, category: &str| {
        json!({
            "service": service,
            "eventTypeCategory": category,
            "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}],
        })
    };
    let instance = json!({"instance-id": "i-1", "instance-action": "terminate"});
    for (source, detail_type, detail, label, ids) in [
        // AWS-304
        (
            "aws.ec2",
            "EC2 Spot Instance Interruption Warning",
            instance.clone(),
            "spot_interrupted",
            &["i-1"][..],
        ),
        // AWS-305
        (
            "aws.ec2",
            "EC2 Instance Rebalance Recommendation",
            instance.clone(),
            "rebalance_recommendation",
            &["i-1"],
        ),
        // AWS-306
        ("aws.ec2", change, state("stopping"), "instance_stopped", &["i-1"]),
        ("aws.ec2", change, state("STOPPED"), "instance_stopped", &["i-1"]),
        // AWS-307
        (
            "aws.ec2",
            change,
            state("shutting-down"),
            "instance_terminated",
            &["i-1"],
        ),
        ("aws.ec2", change, state("terminated"), "instance_terminated", &["i-1"]),
        // AWS-308
        ("aws.ec2", change, state("running"), "no_op", &[]),
        // AWS-309
        (
            "aws.health",
            "AWS Health Event",
            health("EC2", "scheduledChange"),
            "scheduled_change",
            &["i-1", "i-2"],
        ),
        // AWS-310
        ("aws.health", "AWS Health Event", health("EC2", "issue"), "no_op", &[]),
        (
            "aws.health",
            "AWS Health Event",
            health("S3", "scheduledChange"),
            "no_op",
            &[],
        ),
        // AWS-311
        (
            "aws.ec2",
            "EC2 Capacity Reservation Instance Interruption Warning",
            instance,
            "capacity_reservation_interrupted",
            &["i-1"],
        ),
        ("aws.ec2", "Something new", json!({}), "no_op", &[]),
        ("aws.s3", change, json!([]), "no_op", &[]),
    ] {
        let message = parse(&event(source, detail_type, detail.clone())).unwrap();
        assert_eq!(message.label(), label, "{detail_type} {detail}");
        assert_eq!(message.instance_ids, ids, "{detail_type} {detail}");
        assert_eq!(message.time, "2026-01-01T00:00:00Z".parse().ok());
    }
}

// AWS-501, AWS-319
#[test]
fn what_is_no_event_is_an_error_and_what_says_nothing_is_not() {
    let empty = parse("").unwrap();
    assert_eq!((empty.kind, empty.time), (None, None));
    assert_eq!(parse("{}").unwrap().kind, None);
    assert_eq!(
        parse(&event("aws.ec2", "x", json!({})).replace("\"0\"", "\"1\""))
            .unwrap()
            .kind,
        None
    );
    for bad in ["not json", "[]", "\"text\""] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    let odd = event("aws.ec2", "EC2 Instance State-change Notification", json!("text"));
    assert!(parse(&odd).is_err());
}

// AWS-320
#[test]
fn three_queries_ask_for_status() {
    let names: Vec<_> = status_queries()
        .iter()
        .map(|query| (query[0].name.clone(), query[0].values.len()))
        .collect();
    assert_eq!(
        names,
        [
            ("instance-status.status".to_owned(), 1),
            ("system-status.status".to_owned(), 1),
            ("event.code".to_owned(), 5)
        ]
    );
}

#[test]
fn checks_must_fail_for_two_minutes_and_events_count_at_once() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let check = |category, failed, seconds: i64| StatusDetail {
        category,
        failed,
        impaired_since: Some(now - SignedDuration::from_secs(seconds)),
    };
    use InterruptionKind::{InstanceUnhealthy, StatusEvent, SystemUnhealthy};
    use StatusCategory::{Ebs, Event, Instance, System};
    for (details, want) in [
        // AWS-312, AWS-321
        (vec![check(Instance, true, 120)], Some((InstanceUnhealthy, true))),
        (vec![check(Instance, true, 119)], None),
        (vec![check(Instance, false, 300)], None),
        // AWS-313
        (vec![check(System, true, 300)], Some((SystemUnhealthy, true))),
        // AWS-314, AWS-318
        (vec![check(Event, false, 0)], Some((StatusEvent, false))),
        (
            vec![check(Event, false, 0), check(System, true, 300)],
            Some((SystemUnhealthy, true)),
        ),
        (vec![check(Ebs, true, 300)], None),
        (vec![check(Instance, true, -300)], None),
        (vec![], None),
    ] {
        let found = finding(&details, now).map(|finding| (finding.kind, finding.forceful));
        assert_eq!(found, want, "{details:?}");
    }
}

// AWS-314, AWS-320
#[test]
fn maintenance_that_is_over_or_of_another_kind_does_not_count() {
    let text = "The instance is scheduled for retirement";
    for code in [
        "instance-reboot",
        "system-reboot",
        "system-maintenance",
        "instance-retirement",
        "instance-stop",
    ] {
        assert!(is_event_due(code, text) && is_event_due(code, ""), "{code}");
        for over in ["[Completed]", "[Canceled]"] {
            assert!(!is_event_due(code, &format!("{over} {text}")), "{code} {over}");
        }
    }
    assert!(!is_event_due("", text) && !is_event_due("something-new", text));
}

// AWS-323
#[test]
fn an_unhealthy_instance_counts_once_until_it_recovers() {
    let mut counts = UnhealthyCounts::default();
    let sick = [("i-1", StatusCategory::Instance)];
    assert_eq!(counts.observe(sick), [StatusCategory::Instance]);
    assert_eq!(counts.observe(sick), []);
    assert_eq!(counts.observe([]), []);
    assert_eq!(counts.observe(sick), [StatusCategory::Instance]);
    assert_eq!(StatusCategory::Ebs.label(), None);
    // AWS-373
    assert_eq!(StatusCategory::System.label(), Some("SystemStatus"));
}
