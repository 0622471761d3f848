//! Where worlds play: a cluster and an account on which no controllers run yet.

use super::reports::AccountReports;
use super::reserved::Reserved;
use super::scenario::TYPES;
use super::strangers;
use crate::cluster_fixture::{account_for, empty_cluster};
use kerf_aws_sandbox::AwsSandbox;
use kerf_aws_sandbox::account::SecurityGroup;
use kerf_aws_sandbox::boot::Machines;
use kerf_chaos::{EmptyWorld, Instances, Observation};
use kerf_runtime::CancellationToken;
use kerf_sandbox::Sandbox;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Price lists without bare metal count as broken, and are read again and again.
const METAL: &str = "m5.metal";

/// A cluster and an account on which nothing runs yet but machines, under observation.
pub(super) struct Stage {
    pub(super) sandbox: Sandbox,
    pub(super) aws: AwsSandbox,
    /// Stops the machines.
    pub(super) machines: CancellationToken,
    pub(super) observation: Observation,
}

/// The stage of a world; `whole` keeps its log.
pub(super) async fn stage(seed: u64, reserved: &Reserved, whole: bool) -> Stage {
    let EmptyWorld {
        clock,
        observation,
        api,
    } = EmptyWorld::new(seed, whole, Instances::AreReported);
    let sandbox = empty_cluster(seed).clock(clock.clone()).api(api);
    let sandbox = sandbox.build().await.unwrap();
    let mut account = account_for(&sandbox).await;
    account.only_types = Some(TYPES.iter().chain(&[METAL]).map(|name| (*name).to_owned()).collect());
    account.roles.insert("KarpenterNodeRole-second".to_owned());
    account.security_groups.push(SecurityGroup {
        id: "sg-00000000000000002".to_owned(),
        name: "second".to_owned(),
        tags: BTreeMap::new(),
        ..account.security_groups[0].clone()
    });
    reserved.settle(&mut account);
    strangers::settle(&mut account, clock.now());
    let reports = Mutex::new(AccountReports::new(observation.clone()));
    let aws = AwsSandbox::observed(account, clock, move |account, now| {
        reports.lock().unwrap().look(account, now);
    });
    let machines = CancellationToken::new();
    tokio::spawn(Machines::new(aws.clone(), sandbox.client()).run(machines.clone()));
    Stage {
        sandbox,
        aws,
        machines,
        observation,
    }
}
