//! `kerf manifests --iam`: the IAM policy of the controller, or role, queue and rules as a template.

use super::naming::{Names, Release};
use super::values::Values;
use crate::args::{IamArgs, IamFormat, Trust};
use crate::exit::Exit;
use crate::messages::say;
use kerf_aws::iam::{Identity, PolicyScope, Setup};
use kerf_aws::partition::Partition;
use std::io::{self, Write};

fn unless_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// What the options ask for, or everything that is wrong with them.
fn rendered(format: IamFormat, args: &IamArgs, release: &Release, values: &Values) -> Result<String, Vec<String>> {
    let settings = &values.settings;
    let Some(cluster) = args.cluster_name.as_deref().or(unless_empty(&settings.cluster_name)) else {
        return Err(vec![
            "no name of the cluster; use --cluster-name or --set settings.clusterName=NAME".to_owned(),
        ]);
    };
    let region = args.region.as_deref().unwrap_or_default();
    let queue = match &args.queue {
        Some(queue) => unless_empty(queue),
        None => Some(unless_empty(&settings.interruption_queue).unwrap_or(cluster)),
    };
    let own_node_role = format!("KarpenterNodeRole-{cluster}");
    let partition = Partition::of_region(region);
    let names = Names::new(release, values);
    let setup = Setup {
        scope: PolicyScope {
            partition: args.partition.as_deref().unwrap_or(partition.name),
            region,
            account: args.account.as_deref().unwrap_or_default(),
            cluster,
            node_role: args.node_role.as_deref().unwrap_or(&own_node_role),
            queue,
        },
        identity: match (args.trust, args.oidc_issuer.as_deref()) {
            (Trust::Irsa, Some(issuer)) => Identity::ServiceAccountRole { issuer },
            (Trust::Irsa, None) | (Trust::PodIdentity, _) => Identity::PodIdentity,
        },
        namespace: &names.namespace,
        service_account: &names.service_account,
        creates_node_role: args.node_role.is_none(),
    };
    let wrong = setup.check();
    if !wrong.is_empty() {
        return Err(wrong.iter().map(ToString::to_string).collect());
    }
    Ok(match format {
        IamFormat::Json => format!("{:#}\n", setup.scope.policy()),
        IamFormat::Cloudformation => format!("{:#}\n", setup.cloudformation()),
        IamFormat::Terraform => setup.terraform(),
    })
}

/// Prints what the options ask for.
pub(super) fn run(format: IamFormat, args: &IamArgs, release: &Release, values: &Values) -> anyhow::Result<Exit> {
    match rendered(format, args, release, values) {
        Ok(text) => {
            io::stdout().lock().write_all(text.as_bytes())?;
            Ok(Exit::Done)
        }
        Err(problems) => {
            for problem in problems {
                say!("error: {problem}");
            }
            Ok(Exit::BadInput)
        }
    }
}
