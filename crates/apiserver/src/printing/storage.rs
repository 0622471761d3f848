//! Volumes, claims and storage classes.

use serde_json::Value;

use super::builtin::{NAME, Printer, age_of, at, integer, list_at, name, or, text, text_at, wide};

pub(super) const VOLUME: Printer = Printer {
    columns: &[
        NAME,
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        text("Age"),
        wide("VolumeMode"),
    ],
    row: |object, now| {
        let claim = at(object, &["spec", "claimRef"]).map_or(String::new(), |c| {
            format!("{}/{}", text_at(c, &["namespace"]), text_at(c, &["name"]))
        });
        let spec = |key: &str| text_at(object, &["spec", key]);
        vec![
            name(object),
            text_at(object, &["spec", "capacity", "storage"]).into(),
            access_modes(list_at(object, &["spec", "accessModes"])).into(),
            spec("persistentVolumeReclaimPolicy").into(),
            phase(object).into(),
            claim.into(),
            spec("storageClassName").into(),
            or(spec("volumeAttributesClassName"), "<unset>").into(),
            text_at(object, &["status", "reason"]).into(),
            age_of(object, now),
            or(spec("volumeMode"), "<unset>").into(),
        ]
    },
};

pub(super) const CLAIM: Printer = Printer {
    columns: &[
        NAME,
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Age"),
        wide("VolumeMode"),
    ],
    row: |object, now| {
        let spec = |key: &str| text_at(object, &["spec", key]);
        let bound = !spec("volumeName").is_empty();
        let modes = if bound {
            access_modes(list_at(object, &["status", "accessModes"]))
        } else {
            String::new()
        };
        let capacity = if bound {
            text_at(object, &["status", "capacity", "storage"])
        } else {
            ""
        };
        vec![
            name(object),
            phase(object).into(),
            spec("volumeName").into(),
            capacity.into(),
            modes.into(),
            spec("storageClassName").into(),
            or(spec("volumeAttributesClassName"), "<unset>").into(),
            age_of(object, now),
            or(spec("volumeMode"), "<unset>").into(),
        ]
    },
};

pub(super) const CLASS: Printer = Printer {
    columns: &[
        NAME,
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        text("AllowVolumeExpansion"),
        text("Age"),
    ],
    row: |object, now| {
        let shown = text_at(object, &["metadata", "name"]);
        let annotation = "storageclass.kubernetes.io/is-default-class";
        let default = text_at(object, &["metadata", "annotations", annotation]) == "true";
        let expands = at(object, &["allowVolumeExpansion"])
            .and_then(Value::as_bool)
            .unwrap_or(false);
        vec![
            if default {
                format!("{shown} (default)")
            } else {
                shown.to_owned()
            }
            .into(),
            text_at(object, &["provisioner"]).into(),
            or(text_at(object, &["reclaimPolicy"]), "Delete").into(),
            or(text_at(object, &["volumeBindingMode"]), "Immediate").into(),
            expands.to_string().into(),
            age_of(object, now),
        ]
    },
};

pub(super) const CSI_NODE: Printer = Printer {
    columns: &[NAME, integer("Drivers"), text("Age")],
    row: |object, now| {
        vec![
            name(object),
            list_at(object, &["spec", "drivers"]).len().into(),
            age_of(object, now),
        ]
    },
};

pub(super) const CSI_DRIVER: Printer = Printer {
    columns: &[
        NAME,
        text("AttachRequired"),
        text("PodInfoOnMount"),
        text("Modes"),
        text("Age"),
    ],
    row: |object, now| {
        let flag = |key: &str, default: bool| {
            Value::from(
                at(object, &["spec", key])
                    .and_then(Value::as_bool)
                    .unwrap_or(default)
                    .to_string(),
            )
        };
        let modes: Vec<&str> = list_at(object, &["spec", "volumeLifecycleModes"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        vec![
            name(object),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            or(&modes.join(","), "Persistent").into(),
            age_of(object, now),
        ]
    },
};

pub(super) const ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        text("Attacher"),
        text("PV"),
        text("Node"),
        text("Attached"),
        text("Age"),
    ],
    row: |object, now| {
        let attached = at(object, &["status", "attached"])
            .and_then(Value::as_bool)
            .unwrap_or(false);
        vec![
            name(object),
            text_at(object, &["spec", "attacher"]).into(),
            text_at(object, &["spec", "source", "persistentVolumeName"]).into(),
            text_at(object, &["spec", "nodeName"]).into(),
            attached.to_string().into(),
            age_of(object, now),
        ]
    },
};

fn phase(object: &Value) -> &str {
    if at(object, &["metadata", "deletionTimestamp"]).is_some() {
        return "Terminating";
    }
    text_at(object, &["status", "phase"])
}

/// Access modes in their short forms and fixed order.
fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|m| m.as_str() == Some(mode));
    short
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_and_classes_read_like_kubectl() {
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let claim = json!({"metadata": {"name": "data"}, "spec": {"volumeName": "pv1", "storageClassName": "gp3", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
        assert_eq!(
            (CLAIM.row)(&claim, now),
            [
                "data",
                "Bound",
                "pv1",
                "1Gi",
                "RWO",
                "gp3",
                "<unset>",
                "<unknown>",
                "Filesystem"
            ]
        );
        let class = json!({"metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
        assert_eq!(
            (CLASS.row)(&class, now)[..4],
            ["gp3 (default)", "ebs.csi.aws.com", "Delete", "WaitForFirstConsumer"]
        );
    }
}
