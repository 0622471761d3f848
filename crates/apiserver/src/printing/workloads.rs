//! Workloads and disruption budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::builtin::{
    NAME, Printer, age_of, at, containers, integer, list_at, name, number_at, or, selector, text, text_at, wide,
};

const TEMPLATE: &[&str] = &["spec", "template", "spec", "containers"];

/// Appends the age, the names and images of the template's containers, and the selector.
fn with_template(mut cells: Vec<Value>, object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, TEMPLATE);
    let selector = selector(at(object, &["spec", "selector"]));
    cells.extend([age_of(object, now), names, images, selector]);
    cells
}

pub(super) const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        text("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    row: |object, now| {
        let ready = number_at(object, &["status", "readyReplicas"]);
        let cells = vec![
            name(object),
            format!("{ready}/{}", replicas(object)).into(),
            number_at(object, &["status", "updatedReplicas"]).into(),
            number_at(object, &["status", "availableReplicas"]).into(),
        ];
        with_template(cells, object, now)
    },
};

pub(super) const REPLICA_SET: Printer = Printer {
    columns: &[
        NAME,
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    row: |object, now| {
        let cells = vec![
            name(object),
            replicas(object).into(),
            number_at(object, &["status", "replicas"]).into(),
            number_at(object, &["status", "readyReplicas"]).into(),
        ];
        with_template(cells, object, now)
    },
};

pub(super) const STATEFUL_SET: Printer = Printer {
    columns: &[NAME, text("Ready"), text("Age"), wide("Containers"), wide("Images")],
    row: |object, now| {
        let [names, images] = containers(object, TEMPLATE);
        let ready = number_at(object, &["status", "readyReplicas"]);
        vec![
            name(object),
            format!("{ready}/{}", replicas(object)).into(),
            age_of(object, now),
            names,
            images,
        ]
    },
};

pub(super) const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        text("Node Selector"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    row: |object, now| {
        let status = |key: &str| Value::from(number_at(object, &["status", key]));
        let cells = vec![
            name(object),
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            selector(at(object, &["spec", "template", "spec", "nodeSelector"])),
        ];
        with_template(cells, object, now)
    },
};

pub(super) const POD_TEMPLATE: Printer = Printer {
    columns: &[NAME, text("Containers"), text("Images"), text("Pod Labels")],
    row: |object, _| {
        let [names, images] = containers(object, &["template", "spec", "containers"]);
        vec![
            name(object),
            names,
            images,
            selector(at(object, &["template", "metadata", "labels"])),
        ]
    },
};

pub(super) const CONTROLLER_REVISION: Printer = Printer {
    columns: &[NAME, text("Controller"), integer("Revision"), text("Age")],
    row: |object, now| {
        let owners = list_at(object, &["metadata", "ownerReferences"]);
        let owner = owners
            .iter()
            .find(|o| at(o, &["controller"]).and_then(Value::as_bool) == Some(true));
        let named = owner.map_or("<none>".to_owned(), |o| {
            let group = text_at(o, &["apiVersion"])
                .split_once('/')
                .map_or("", |(group, _)| group);
            let kind = text_at(o, &["kind"]).to_lowercase();
            let full = if group.is_empty() {
                kind
            } else {
                format!("{kind}.{group}")
            };
            format!("{full}/{}", text_at(o, &["name"]))
        });
        vec![
            name(object),
            named.into(),
            number_at(object, &["revision"]).into(),
            age_of(object, now),
        ]
    },
};

pub(super) const JOB: Printer = Printer {
    columns: &[
        NAME,
        text("Status"),
        text("Completions"),
        text("Duration"),
        text("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    row: job_row,
};

fn job_row(job: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(job, TEMPLATE);
    let succeeded = number_at(job, &["status", "succeeded"]);
    let completions = match (at(job, &["spec", "completions"]), at(job, &["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(Value::Number(n))) if n.as_i64().is_some_and(|n| n > 1) => format!("{succeeded}/1 of {n}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |key: &str| text_at(job, &["status", key]).parse::<Timestamp>().ok();
    let duration = time("startTime").map_or(String::new(), |start| {
        age::human(time("completionTime").unwrap_or(now).as_second() - start.as_second())
    });
    vec![
        name(job),
        job_status(job).into(),
        completions.into(),
        duration.into(),
        age_of(job, now),
        names,
        images,
        selector(at(job, &["spec", "selector"])),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let holds = |ty: &str| {
        let mut conditions = list_at(job, &["status", "conditions"]).iter();
        conditions.any(|c| text_at(c, &["type"]) == ty && text_at(c, &["status"]) == "True")
    };
    let deleted = at(job, &["metadata", "deletionTimestamp"]).is_some();
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if deleted => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        text("Schedule"),
        text("Timezone"),
        text("Suspend"),
        integer("Active"),
        text("Last Schedule"),
        text("Age"),
    ],
    row: |object, now| {
        let last = at(object, &["status", "lastScheduleTime"]);
        let suspended = at(object, &["spec", "suspend"])
            .and_then(Value::as_bool)
            .unwrap_or(false);
        vec![
            name(object),
            text_at(object, &["spec", "schedule"]).into(),
            or(text_at(object, &["spec", "timeZone"]), "<none>").into(),
            if suspended { "True" } else { "False" }.into(),
            list_at(object, &["status", "active"]).len().into(),
            last.map_or("<none>".to_owned(), |time| age::since(Some(time), now))
                .into(),
            age_of(object, now),
        ]
    },
};

pub(super) const DISRUPTION_BUDGET: Printer = Printer {
    columns: &[
        NAME,
        text("Min Available"),
        text("Max Unavailable"),
        integer("Allowed Disruptions"),
        text("Age"),
    ],
    row: |object, now| {
        let bound = |key: &str| match at(object, &["spec", key]) {
            None | Some(Value::Null) => Value::from("N/A"),
            Some(Value::String(text)) => text.as_str().into(),
            Some(other) => other.to_string().into(),
        };
        vec![
            name(object),
            bound("minAvailable"),
            bound("maxUnavailable"),
            number_at(object, &["status", "disruptionsAllowed"]).into(),
            age_of(object, now),
        ]
    },
};

/// `spec.replicas`, which defaults to one.
fn replicas(object: &Value) -> i64 {
    at(object, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cells(printer: Printer, object: &Value) -> Vec<Value> {
        (printer.row)(object, "2026-01-01T01:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn workloads_show_their_counts() {
        let deployment = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:59:55Z"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        });
        assert_eq!(
            json!(cells(DEPLOYMENT, &deployment)),
            json!(["web", "1/3", 2, 1, "5s", "a,b", "i:1,j", "app=web"])
        );
        assert_eq!(
            json!(cells(STATEFUL_SET, &deployment)),
            json!(["web", "1/3", "5s", "a,b", "i:1,j"])
        );
        let job = json!({"metadata": {"name": "j"}, "spec": {"completions": 2}, "status": {
            "succeeded": 2, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:30Z",
            "conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(cells(JOB, &job)[1..4], ["Complete", "2/2", "30s"]);
    }

    #[test]
    fn a_budget_shows_which_bound_it_has() {
        let budget =
            json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": "10%"}, "status": {"disruptionsAllowed": 1}});
        assert_eq!(
            json!(cells(DISRUPTION_BUDGET, &budget)),
            json!(["b", "N/A", "10%", 1, "<unknown>"])
        );
    }
}
