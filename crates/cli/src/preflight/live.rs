//! Facts from a cluster.

use super::facts::{Facts, MissingPermission, Permissions};
use super::files::add;
use super::settings::{self, Settings};
use crate::install::rbac::{GRANTS, Grant, GrantScope};
use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kerf_runtime::client::{ApiLayers, Connection};
use kube::api::PostParams;
use kube::core::Request;
use kube::core::params::ListParams;
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeSet;

/// Objects per answer.
const PAGE: u32 = 500;

const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";

/// Label of Karpenter's and Kerf's Deployments.
const CONTROLLERS: &str = "app.kubernetes.io/name in (karpenter,kerf)";

/// Reads a cluster. An error is of the API server or the network; what the user may not read is noted in the facts.
pub(super) async fn read(connection: &Connection, facts: &mut Facts) -> anyhow::Result<()> {
    let client = connection.client(&ApiLayers::new().user_agent(concat!("kerf/", env!("CARGO_PKG_VERSION"))))?;
    let server = connection.server();
    let version = client
        .apiserver_version()
        .await
        .with_context(|| format!("asking {server} for its version"))?;
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    facts.server_version = number(&version.major).zip(number(&version.minor));
    let all = ListParams::default();
    for (path, kind, params) in [
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "CustomResourceDefinition",
            &all,
        ),
        ("/apis/karpenter.sh/v1/nodepools", "NodePool", &all),
        ("/apis/karpenter.sh/v1/nodeclaims", "NodeClaim", &all),
        ("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "EC2NodeClass", &all),
        (
            "/apis/apps/v1/deployments",
            "Deployment",
            &all.clone().labels(CONTROLLERS),
        ),
    ] {
        read_kind(&client, &server, path, kind, params, facts).await?;
    }
    let names: BTreeSet<String> = settings::of_controllers(facts)
        .into_iter()
        .map(|settings| settings.lease)
        .collect();
    for name in names {
        let params = all.clone().fields(&format!("metadata.name={name}"));
        read_kind(&client, &server, LEASES, "Lease", &params, facts).await?;
    }
    facts.permissions = permissions(&client, facts).await?;
    Ok(())
}

/// Adds the objects of a kind.
async fn read_kind(
    client: &Client,
    server: &str,
    path: &str,
    kind: &str,
    params: &ListParams,
    facts: &mut Facts,
) -> anyhow::Result<()> {
    match list(client, path, params).await {
        Ok(items) => {
            for mut item in items {
                if let Some(object) = item.as_object_mut() {
                    object.insert("kind".to_owned(), kind.into());
                }
                if let Err(error) = add(facts, item) {
                    facts.unread.push(error.to_string());
                }
            }
        }
        // Without the definitions there are no objects, which another check reports.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(kube::Error::Api(status)) if status.code == 403 => {
            facts.unread.push(format!("{kind}: {}", status.message));
        }
        Err(error) => return Err(error).with_context(|| format!("listing {path} of {server}")),
    }
    Ok(())
}

/// Lists page by page.
async fn list(client: &Client, path: &str, params: &ListParams) -> kube::Result<Vec<Value>> {
    let mut params = params.clone().limit(PAGE);
    let mut items = Vec::new();
    loop {
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        let mut answer: Value = client.request(request).await?;
        if let Some(page) = answer.get_mut("items").and_then(Value::as_array_mut) {
            items.append(page);
        }
        let next = answer.pointer("/metadata/continue").and_then(Value::as_str);
        match next {
            Some(token) if !token.is_empty() => params = params.continue_token(token),
            _ => return Ok(items),
        }
    }
}

/// Whose permissions are asked for.
enum Subject {
    /// The service account of the Deployment: namespace and name.
    ServiceAccount { namespace: String, name: String },
    /// The user of the kubeconfig.
    CurrentUser,
}

/// Asks for every permission of the table. `None` if the API server does not answer such questions.
async fn permissions(client: &Client, facts: &mut Facts) -> anyhow::Result<Option<Permissions>> {
    let namespace = facts.target_namespace().to_owned();
    let provider = facts.provider();
    let settings = settings::of_replaced(facts);
    let account = |deployment: &Deployment| {
        Some(Subject::ServiceAccount {
            namespace: deployment.metadata.namespace.clone()?,
            name: service_account(deployment),
        })
    };
    let deployed = facts.deployments.first().and_then(account);
    let mut subject = deployed.unwrap_or(Subject::CurrentUser);
    let mut found = Permissions {
        subject: String::new(),
        asked: 0,
        missing: Vec::new(),
    };
    for grant in GRANTS
        .iter()
        .filter(|grant| grant.applies(provider, settings.capacity_buffer))
    {
        for resource in grant.resources {
            let mut missing = Vec::new();
            for verb in grant.verbs {
                let question = question(grant, resource, verb, &namespace, &settings);
                let mut answer = ask(client, &subject, question.clone()).await;
                if let (Err(kube::Error::Api(status)), Subject::ServiceAccount { namespace, name }) =
                    (&answer, &subject)
                    && status.code == 403
                {
                    facts.unread.push(format!(
                        "permissions of service account {namespace}/{name} ({}); your own are checked instead",
                        status.message
                    ));
                    subject = Subject::CurrentUser;
                    answer = ask(client, &subject, question).await;
                }
                match answer {
                    Ok(true) => {}
                    Ok(false) => missing.push(*verb),
                    Err(kube::Error::Api(status)) if matches!(status.code, 403..=405) => return Ok(None),
                    Err(error) => return Err(error).context("asking for permissions"),
                }
                found.asked += 1;
            }
            if !missing.is_empty() {
                found.missing.push(MissingPermission {
                    group: grant.group,
                    resource,
                    verbs: missing,
                    purpose: grant.purpose,
                });
            }
        }
    }
    found.subject = match &subject {
        Subject::ServiceAccount { namespace, name } => format!("service account {namespace}/{name}"),
        Subject::CurrentUser => "your user".to_owned(),
    };
    Ok(Some(found))
}

fn service_account(deployment: &Deployment) -> String {
    let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let name = spec.and_then(|spec| spec.service_account_name.clone());
    name.unwrap_or_else(|| "default".to_owned())
}

fn question(grant: &Grant, resource: &str, verb: &str, namespace: &str, settings: &Settings) -> ResourceAttributes {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (resource, None),
    };
    ResourceAttributes {
        group: Some(grant.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        namespace: match grant.scope {
            GrantScope::OwnNamespace => Some(namespace.to_owned()),
            GrantScope::KubeSystem => Some("kube-system".to_owned()),
            GrantScope::Cluster | GrantScope::Provider => None,
        },
        name: grant.only_name(&settings.lease).map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

async fn ask(client: &Client, subject: &Subject, question: ResourceAttributes) -> kube::Result<bool> {
    let post = PostParams::default();
    let status: Option<SubjectAccessReviewStatus> = match subject {
        Subject::ServiceAccount { namespace, name } => {
            let review = SubjectAccessReview {
                spec: SubjectAccessReviewSpec {
                    resource_attributes: Some(question),
                    user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                    groups: Some(vec![
                        "system:serviceaccounts".to_owned(),
                        format!("system:serviceaccounts:{namespace}"),
                        "system:authenticated".to_owned(),
                    ]),
                    ..SubjectAccessReviewSpec::default()
                },
                ..SubjectAccessReview::default()
            };
            Api::<SubjectAccessReview>::all(client.clone())
                .create(&post, &review)
                .await?
                .status
        }
        Subject::CurrentUser => {
            let review = SelfSubjectAccessReview {
                spec: SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(question),
                    ..SelfSubjectAccessReviewSpec::default()
                },
                ..SelfSubjectAccessReview::default()
            };
            Api::<SelfSubjectAccessReview>::all(client.clone())
                .create(&post, &review)
                .await?
                .status
        }
    };
    Ok(status.is_some_and(|status| status.allowed))
}
