//! Creates NodeClaims; every controller that launches does it here.

use std::sync::Arc;
use std::time::Duration;

use kerf_api::{NodeClaim, NodePool, annotations};
use kerf_model::intern::Interner;
use kerf_model::nodepool::ExceededLimit;
use kerf_model::plan::Launch;
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_runtime::Backoff;
use kerf_runtime::client::{ApiErrorKind, describe, name_of};
use kerf_runtime::logging::json;
use kerf_runtime::metrics::catalogue;
use kerf_state::PodTimes;
use kube::Api;
use kube::api::PostParams;

use super::claim::{Blueprint, build};
use crate::context::Context;

/// How many instance types a log line names.
const TYPES_NAMED: usize = 5;

/// How often a creation without a clear answer is attempted, and the pauses in between.
const ATTEMPTS: u32 = 8;
const RETRY_PAUSE: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

/// The longest name, and the random part of it.
const NAME_MAX: usize = 63;
const SUFFIX: usize = 5;

/// A claim to create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation<'a> {
    /// The planned launch.
    pub launch: &'a Launch,
    /// The pool as it was when the plan was made.
    pub pool: &'a NodePool,
    /// The reason, as the label of the metric: `provisioned`, or a disruption reason in lower case (SCH-325).
    pub reason: &'static str,
    /// The pods planned onto this node; they count as placed until it is launched. Empty for nodes of static pools: any pod may run
    /// there.
    pub promised: &'a [Arc<Pod>],
}

/// Why a claim was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreationError {
    /// The pool is gone or another one has its name (SCH-324).
    #[error("getting current resource usage, NodePool.karpenter.sh \"{0}\" not found")]
    PoolGone(Arc<str>),
    /// The pool's limit does not allow it (SCH-150).
    #[error("resource usage exceeds limit (limit={limit}, resource-name={resource}, usage={usage})")]
    Limit {
        /// The limit.
        limit: String,
        /// The resource.
        resource: String,
        /// The amount in use.
        usage: String,
    },
    /// The API server refused it.
    #[error("creating nodeclaim, {}", describe(.0))]
    Api(#[from] kube::Error),
}

impl CreationError {
    fn limit(exceeded: ExceededLimit, interner: &Interner) -> Self {
        let ExceededLimit { resource, limit, usage } = exceeded;
        Self::Limit {
            limit: Resources::print(resource, limit),
            resource: interner.text(resource).to_owned(),
            usage: Resources::print(resource, usage),
        }
    }
}

/// Creates a claim and adds it to the cluster's memory at once, so that the next decision includes it (SCH-323).
pub(crate) async fn create(context: &Context, creation: Creation<'_>) -> Result<NodeClaim, CreationError> {
    let Creation {
        launch,
        pool,
        reason,
        promised,
    } = creation;
    let current = context.cluster.pool(&launch.pool);
    if current.is_none_or(|current| current.metadata.uid != pool.metadata.uid) {
        return Err(CreationError::PoolGone(Arc::clone(&launch.pool)));
    }
    // Usage may have grown since the plan (SCH-150).
    let usage = context.cluster.pool_usage(&launch.pool, context.now());
    if let Some(exceeded) = usage.and_then(|pool| pool.exceeded_limit(&Resources::new())) {
        return Err(CreationError::limit(exceeded, &context.interner));
    }
    let claim = build(Blueprint {
        launch,
        pool,
        vocabulary: &context.provider.profile().vocabulary,
        interner: &context.interner,
    })?;
    let created = write(context, &launch.pool, claim).await?;
    let name: Arc<str> = name_of(&created)?.into();
    context.cluster.created(created.clone());
    let (keep_room, promised): (Vec<_>, Vec<_>) = promised.iter().cloned().partition(|pod| pod.is_virtual());
    if !pool.spec.is_static() {
        let capacity = launch.catalogue.capacity_max(launch.types.iter().copied());
        context.cluster.promise(&name, &promised, capacity);
        context.cluster.free_buffer_room(&name, &keep_room);
    }
    for pod in &promised {
        let planned = |times: &mut PodTimes| times.planned_onto(&pod.namespace, &pod.name, &name);
        context.cluster.note_times(pod, planned);
    }
    tracing::info!(
        NodePool = %launch.pool,
        NodeClaim = %name,
        requests = %json(&kerf_cloud::quantities(&launch.requests, &context.interner)),
        "instance-types" = %types_text(launch, &context.interner),
        "created nodeclaim",
    );
    let annotations = created.metadata.annotations.as_ref();
    let relaxed = annotations.and_then(|all| all.get(annotations::MIN_VALUES_RELAXED));
    let relaxed = relaxed.map_or("false", String::as_str);
    let counter = context.metrics.counter(&catalogue::NODECLAIMS_CREATED);
    counter.inc(&[reason, &launch.pool, relaxed]);
    Ok(created)
}

/// Creates a claim of a pool under a name that Kerf chooses. So a call without an answer can be repeated without creating two claims, and its pods do
/// not get a second node.
async fn write(context: &Context, pool: &str, mut claim: NodeClaim) -> Result<NodeClaim, kube::Error> {
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    claim.metadata.name = Some(new_name(context, pool));
    let (mut in_doubt, mut failures) = (false, 0);
    loop {
        let error = match api.create(&PostParams::default(), &claim).await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        failures += 1;
        match ApiErrorKind::of(&error) {
            _ if failures == ATTEMPTS => return Err(error),
            ApiErrorKind::AlreadyExists if in_doubt => {
                let there = api.get(name_of(&claim)?).await;
                if let Ok(there) = there
                    && there.spec.resources == claim.spec.resources
                    && there.spec.requirements == claim.spec.requirements
                {
                    return Ok(there);
                }
            }
            ApiErrorKind::AlreadyExists => claim.metadata.name = Some(new_name(context, pool)),
            ApiErrorKind::Retryable | ApiErrorKind::Malformed => in_doubt = true,
            ApiErrorKind::TooManyRequests | ApiErrorKind::Conflict if in_doubt => {}
            _ => return Err(error),
        }
        tokio::time::sleep(RETRY_PAUSE.delay(failures)).await;
    }
}

/// A name as the API server would generate one from `generateName`.
fn new_name(context: &Context, pool: &str) -> String {
    let kept: String = format!("{pool}-").chars().take(NAME_MAX - SUFFIX).collect();
    format!("{kept}{}", context.names.name_suffix(SUFFIX))
}

/// The instance types of a launch for a log line (SCH-326).
pub(crate) fn types_text(launch: &Launch, interner: &Interner) -> String {
    let types = launch
        .types
        .iter()
        .filter_map(|at| launch.catalogue.types.get(*at as usize));
    let names: Vec<&str> = types.map(|kind| interner.text(kind.name)).collect();
    listed(&names, TYPES_NAMED)
}

/// The first few names, and the number of the others.
pub(crate) fn listed<T: AsRef<str>>(names: &[T], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} other(s)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCH-326
    #[test]
    fn a_log_line_names_five() {
        let names: Vec<String> = (1..=7).map(|n| format!("t{n}")).collect();
        assert_eq!(listed(&names, 5), "t1, t2, t3, t4, t5 and 2 other(s)");
        assert_eq!(listed(&names[..5], 5), "t1, t2, t3, t4, t5");
    }

    // SCH-323
    #[tokio::test(start_paused = true)]
    async fn a_pool_that_is_gone_or_another_gets_no_claim() {
        let class = kerf_cloud::FAKE_NODE_CLASS;
        let pool = |uid: &str| -> NodePool {
            let class = serde_json::json!({"group": class.group, "kind": class.kind, "name": "default"});
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "web", "uid": uid, "resourceVersion": "1"},
                "spec": {"limits": {"nodes": "0"}, "template": {"spec": {"requirements": [], "nodeClassRef": class}}},
            }))
            .expect("a pool")
        };
        // Every call fails, and none is made.
        let context = Context::without_api();
        let planned = pool("planned");
        let mut converter =
            kerf_state::Converter::new(Arc::clone(&context.interner), &kerf_state::Conventions::default());
        let launch = Launch::of_template(&Arc::new(converter.pool(&planned, true).expect("a name").pool));
        let creation = Creation {
            launch: &launch,
            pool: &planned,
            reason: "provisioned",
            promised: &[],
        };
        let refused = async || create(&context, creation).await.expect_err("refused").to_string();
        let gone = "getting current resource usage, NodePool.karpenter.sh \"web\" not found";
        assert_eq!(refused().await, gone);
        let apply = |pool: NodePool| {
            let changes = crate::cluster::Watched::apply(&context.cluster, pool);
            context.cluster.notify(changes);
        };
        apply(pool("another"));
        assert_eq!(refused().await, gone);
        apply(planned.clone());
        assert!(
            refused().await.starts_with("creating nodeclaim, "),
            "it is read again each time"
        );
        assert!(context.cluster.claims().is_empty());
        let counted = context.metrics.counter(&catalogue::NODECLAIMS_CREATED);
        assert!(counted.get(&["provisioned", "web", "false"]) < 1.0);
    }

    // SCH-150, DIS-291
    #[test]
    fn an_exceeded_limit_is_named() {
        let exceeded = ExceededLimit {
            resource: kerf_model::intern::sym::CPU,
            limit: 4000,
            usage: 4001,
        };
        assert_eq!(
            // OPS-217: see docs/deviations.md. The values are in the text alone.
            CreationError::limit(exceeded, &Interner::default()).to_string(),
            "resource usage exceeds limit (limit=4, resource-name=cpu, usage=4001m)"
        );
    }
}
