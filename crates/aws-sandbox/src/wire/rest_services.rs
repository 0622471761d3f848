//! The services whose calls are paths: EKS and zonal shift.

use super::errors::unknown_action;
use super::request::{Service, WireAnswer, WireRequest};
use crate::account::{Account, Answer};
use kerf_aws::zonal_shift::Shift;
use serde_json::{Map, Value, json};

/// The action of a request, and the part of its path that names something. `None` for a path that no action has.
pub(super) fn route(service: Service, request: &WireRequest<'_>) -> Option<(&'static str, String)> {
    let mut parts = request.path().trim_start_matches('/').split('/');
    let (kind, part, rest) = (parts.next()?, parts.next()?, parts.next());
    if request.method != "GET" || part.is_empty() || rest.is_some() {
        return None;
    }
    let action = match (service, kind) {
        (Service::Eks, "clusters") => "DescribeCluster",
        (Service::ZonalShift, "managedresources") => "GetManagedResource",
        _ => return None,
    };
    Some((action, decoded(part)))
}

/// The part of a path without its percent signs. A plus sign stays one, unlike in forms.
fn decoded(part: &str) -> String {
    let escaped = part.replace('+', "%2B");
    let query = format!("part={escaped}");
    form_urlencoded::parse(query.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// EKS.
pub(super) fn eks(account: &Account, action: &str, name: &str) -> Answer<WireAnswer> {
    if action != "DescribeCluster" {
        return Err(unknown_action(Service::Eks, action));
    }
    let cluster = account.cluster(name)?;
    let about = &cluster.description;
    let network = json!({"serviceIpv4Cidr": about.service_ipv4_cidr, "serviceIpv6Cidr": about.service_ipv6_cidr});
    let answer = json!({"cluster": {
        "name": name, "arn": about.arn, "version": about.version, "endpoint": about.endpoint, "status": "ACTIVE",
        "kubernetesNetworkConfig": network, "certificateAuthority": {"data": cluster.certificate},
    }});
    Ok(WireAnswer::json(&answer))
}

/// Zonal shift.
pub(super) fn zonal_shift(account: &Account, action: &str, arn: &str) -> Answer<WireAnswer> {
    if action != "GetManagedResource" {
        return Err(unknown_action(Service::ZonalShift, action));
    }
    let (cluster, shifts) = account.managed_resource(arn)?;
    let weights: Map<String, Value> = account.zones.iter().map(|zone| (zone.id.clone(), json!(1.0))).collect();
    let shift = |(at, one): (usize, &Shift)| {
        json!({
            "appliedStatus": if one.applied { "APPLIED" } else { "NOT_APPLIED" },
            "zonalShiftId": format!("shift-{at}"), "resourceIdentifier": arn, "awayFrom": one.zone_id,
            "expiryTime": one.expires.as_second(), "startTime": 0, "comment": "",
        })
    };
    let answer = json!({
        "arn": arn, "name": cluster.name, "appliedWeights": weights,
        "zonalShifts": shifts.iter().enumerate().map(shift).collect::<Vec<_>>(),
    });
    Ok(WireAnswer::json(&answer))
}
