//! Decorators forward what they do not change.

use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::{LabelRules, NodeClaim, NodePool};
use kerf_cloud::{
    CloudError, CloudProvider, Decorator, DriftReason, Interruption, InterruptionKind, Launched, Profile,
    RegistrationHook, Vocabulary,
};
use kerf_model::instance_type::Catalogue;
use serde_json::json;
use std::sync::{Arc, Mutex};

/// A provider that records the names of its calls.
struct Recording {
    profile: Profile,
    hooks: Vec<Arc<dyn RegistrationHook>>,
    calls: Mutex<Vec<&'static str>>,
}

impl Recording {
    fn note<T>(&self, call: &'static str, answer: T) -> T {
        self.calls.lock().expect("not poisoned").push(call);
        answer
    }
}

#[async_trait]
impl CloudProvider for Recording {
    fn profile(&self) -> &Profile {
        self.note("profile", &self.profile)
    }

    async fn create(&self, _claim: &NodeClaim) -> Result<Launched, CloudError> {
        self.note("create", Ok(Launched::default()))
    }

    async fn delete(&self, _claim: &NodeClaim) -> Result<(), CloudError> {
        self.note("delete", Ok(()))
    }

    async fn get(&self, _provider_id: &str) -> Result<Launched, CloudError> {
        self.note("get", Ok(Launched::default()))
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        self.note("list", Ok(Vec::new()))
    }

    async fn instance_types(&self, _pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        self.note("instance_types", Ok(Arc::default()))
    }

    async fn is_drifted(&self, _claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        self.note("is_drifted", Ok(None))
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        self.note("registration_hooks", &self.hooks)
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        self.note("interruptions", Ok(Vec::new()))
    }

    async fn acknowledge(&self, _handled: &Interruption) -> Result<(), CloudError> {
        self.note("acknowledge", Ok(()))
    }

    fn note_interruption(&self, _claim: &NodeClaim, _kind: InterruptionKind, _now: Timestamp) {
        self.note("note_interruption", ());
    }
}

/// A decorator that changes nothing.
struct Unchanged(Arc<dyn CloudProvider>);

impl Decorator for Unchanged {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.0
    }
}

#[tokio::test]
async fn a_decorator_forwards_every_call_it_does_not_change() {
    let recording = Arc::new(Recording {
        profile: Profile {
            name: "recording",
            node_classes: Vec::new(),
            vocabulary: Vocabulary::new(LabelRules::core()),
            repair_policies: Vec::new(),
        },
        hooks: Vec::new(),
        calls: Mutex::default(),
    });
    let decorated: Arc<dyn CloudProvider> = Arc::new(Unchanged(Arc::<Recording>::clone(&recording)));
    let claim: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c1"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}},
    }))
    .expect("a claim");
    let pool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}},
    }))
    .expect("a pool");
    let signal = Interruption {
        kind: InterruptionKind::SpotReclaim,
        provider_ids: Vec::new(),
        sent: None,
        receipt: "1".to_owned(),
    };
    decorated.profile();
    decorated.create(&claim).await.expect("created");
    decorated.delete(&claim).await.expect("deleted");
    decorated.get("id").await.expect("an instance");
    decorated.list().await.expect("a list");
    decorated.instance_types(&pool).await.expect("types");
    decorated.is_drifted(&claim).await.expect("an answer");
    decorated.registration_hooks();
    decorated.interruptions().await.expect("signals");
    decorated.acknowledge(&signal).await.expect("acknowledged");
    decorated.note_interruption(&claim, signal.kind, Timestamp::UNIX_EPOCH);
    assert_eq!(
        *recording.calls.lock().expect("not poisoned"),
        [
            "profile",
            "create",
            "delete",
            "get",
            "list",
            "instance_types",
            "is_drifted",
            "registration_hooks",
            "interruptions",
            "acknowledge",
            "note_interruption",
        ]
    );
}
