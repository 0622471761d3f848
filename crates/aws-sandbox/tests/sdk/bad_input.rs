//! What the schema lets pass and EC2 refuses: the class reports the reason, no launch is attempted, and other classes work. Also: what cannot be
//! reached or used at all, and what may never be logged.

use crate::cluster_fixture::{Cluster, GETTING_STARTED, cluster};
use crate::cluster_objects::ClusterObjects as _;
use crate::fixture;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use jiff::Timestamp;
use kerf_api::{AmiFamily, Condition, EC2NodeClass, NodePool};
use kerf_aws::sdk::ConnectError;
use kerf_aws_sandbox::account::{Account, Image, Refusal, SecurityGroup};
use kerf_aws_sandbox::connect_as;
use kerf_sandbox::CapturedLog;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// A class and a pool of another team. They are as they should be.
const OTHER_TEAM: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: other
spec:
  role: KarpenterNodeRole-kerf
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: kerf}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: kerf}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: other
spec:
  template:
    metadata: {labels: {of: other}}
    spec:
      taints: [{key: of, value: other, effect: NoSchedule}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: other}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other}}
    spec:
      nodeSelector: {of: other}
      tolerations: [{key: of, operator: Exists}]
      containers:
        - name: other
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: \"1\"}}
";

/// A class that EC2 refuses.
struct Refused {
    what: &'static str,
    /// What is replaced in the guide's class, and by what.
    replace: (&'static str, &'static str),
    /// Fields that are added to its specification.
    add: &'static str,
    condition: &'static str,
    reason: &'static str,
    /// Parts of the message: AWS's code where AWS refuses, what it is about, and the remedy.
    says: &'static [&'static str],
}

const ALIAS: &str = "    - alias: al2023@latest";
const GROUPS: &str = "  securityGroupSelectorTerms:\n    - tags:\n        karpenter.sh/discovery: kerf";
const ROLE: &str = "  role: KarpenterNodeRole-kerf\n";

/// Stands for more user data than EC2 takes.
const OVERSIZED: &str = "OVERSIZED";

const REFUSED: [Refused; 12] = [
    Refused {
        what: "an image that does not exist",
        replace: (ALIAS, "    - id: ami-0abc"),
        add: "  amiFamily: AL2023",
        condition: "AMIsReady",
        reason: "AMINotFound",
        says: &["ami-0abc", "not shared with this account", "spec.amiSelectorTerms"],
    },
    Refused {
        what: "an image of another architecture",
        replace: (ALIAS, "    - id: ami-0386"),
        add: "  amiFamily: AL2023",
        condition: "AMIsReady",
        reason: "AMINotFound",
        says: &["ami-0386", "\"i386\"", "x86_64", "spec.amiSelectorTerms"],
    },
    Refused {
        what: "a release that does not exist",
        replace: (ALIAS, "    - alias: al2023@v1"),
        add: "",
        condition: "AMIsReady",
        reason: "AliasNotResolved",
        says: &["al2023@v1", "ssm:GetParameter"],
    },
    Refused {
        what: "a security group of another VPC",
        replace: (GROUPS, "  securityGroupSelectorTerms:\n    - id: sg-0other"),
        add: "",
        condition: "ValidationSucceeded",
        reason: "SecurityGroupSubnetVPCMismatch",
        says: &["InvalidParameter", "sg-0other", "select one VPC"],
    },
    Refused {
        what: "a role that does not exist",
        replace: (ROLE, "  role: nobody\n"),
        add: "",
        condition: "InstanceProfileReady",
        reason: "NoSuchEntity",
        says: &["NoSuchEntity", "nobody", "spec.role"],
    },
    Refused {
        what: "an instance profile that does not exist",
        replace: (ROLE, "  instanceProfile: nothing\n"),
        add: "",
        condition: "ValidationSucceeded",
        reason: "InstanceProfileNameInvalid",
        says: &["InvalidParameterValue", "nothing", "spec.instanceProfile"],
    },
    Refused {
        what: "settings that are no TOML",
        replace: (ALIAS, "    - alias: bottlerocket@latest"),
        add: "  userData: |\n    [settings\n    secret = 1",
        condition: "ValidationSucceeded",
        reason: "UserDataInvalid",
        says: &["no valid TOML at line 1", "spec.userData"],
    },
    Refused {
        what: "an archive that cannot be read",
        replace: (ALIAS, ALIAS),
        add: "  userData: |\n    MIME-Version: 1.0\n    Content-Type: multipart/mixed\n\n    secret",
        condition: "ValidationSucceeded",
        reason: "UserDataInvalid",
        says: &["invalid user data", "spec.userData"],
    },
    Refused {
        what: "subnets that do not exist",
        replace: (
            "  subnetSelectorTerms:\n    - tags:\n        karpenter.sh/discovery: kerf",
            "  subnetSelectorTerms:\n    - id: subnet-0nowhere",
        ),
        add: "",
        condition: "SubnetsReady",
        reason: "SubnetsNotFound",
        says: &[
            "SubnetSelector did not match any Subnets in us-east-1",
            "correct spec.subnetSelectorTerms",
        ],
    },
    Refused {
        what: "security groups that do not exist",
        replace: (GROUPS, "  securityGroupSelectorTerms:\n    - tags: {team: nobody}"),
        add: "",
        condition: "SecurityGroupsReady",
        reason: "SecurityGroupsNotFound",
        says: &["in us-east-1", "correct spec.securityGroupSelectorTerms"],
    },
    Refused {
        what: "more user data than EC2 takes",
        replace: (ALIAS, ALIAS),
        add: "  userData: |\n    #!/bin/bash\n    # OVERSIZED",
        condition: "ValidationSucceeded",
        reason: "UserDataSizeLimitExceeded",
        says: &["InvalidUserData.Malformed", "16384 bytes", "shorten spec.userData"],
    },
    Refused {
        what: "a placement group that does not exist",
        replace: (ALIAS, ALIAS),
        add: "  placementGroupSelector: {name: nowhere}",
        condition: "PlacementGroupReady",
        reason: "PlacementGroupResolutionFailed",
        says: &[
            "InvalidPlacementGroup.Unknown",
            "nowhere",
            "spec.placementGroupSelector",
        ],
    },
];

fn things_of_others(account: &mut Account) {
    account.security_groups.push(SecurityGroup {
        id: "sg-0other".to_owned(),
        name: "other".to_owned(),
        vpc_id: "vpc-0other".to_owned(),
        tags: Default::default(),
    });
    account.images.push(Image {
        id: "ami-0386".to_owned(),
        name: "old".to_owned(),
        architecture: "i386".to_owned(),
        family: AmiFamily::Al2023,
        owner_id: account.id.clone(),
        owner_alias: None,
        created: "2020-01-01T00:00:00Z".parse::<Timestamp>().unwrap(),
        deprecated_from: None,
        state: "available".to_owned(),
        tags: Default::default(),
    });
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == kind)
}

/// Whether the class has the condition.
fn says(class: &EC2NodeClass, refused: &Refused) -> bool {
    let found = find(&class.status.conditions, refused.condition);
    found.is_some_and(|one| {
        let message = one.message();
        !one.is_true()
            && one.reason.as_deref() == Some(refused.reason)
            && refused.says.iter().all(|part| message.contains(part))
    })
}

async fn pool_is_ready(cluster: &Cluster) -> bool {
    let pool = Api::<NodePool>::all(cluster.client()).get("default").await.unwrap();
    let conditions = pool.status.unwrap_or_default().conditions;
    find(&conditions, "Ready").is_none_or(Condition::is_true)
}

/// Waits for the condition, and sees that nothing is launched with the class while other classes go on.
async fn is_refused(cluster: &Cluster, refused: &Refused) {
    cluster
        .until(refused.what, 5, async |cluster| says(&cluster.class().await, refused))
        .await;
    cluster
        .until("the pool is not ready", 5, async |cluster| {
            !pool_is_ready(cluster).await
        })
        .await;
    cluster
        .until("pods of the other class run", 10, async |cluster| {
            cluster.running_pods().await == 2
        })
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let of_pool = |tags: &kerf_aws::tags::Tags| tags.get("karpenter.sh/nodepool").is_some_and(|pool| pool == "default");
    let launched = cluster
        .aws
        .with(|account, _| account.instances.values().filter(|one| of_pool(&one.tags)).count());
    assert_eq!(launched, 0, "{}", refused.what);
    assert!(
        !cluster
            .claims()
            .await
            .iter()
            .any(|claim| claim.labels()["karpenter.sh/nodepool"] == "default"),
        "{}: claims in vain",
        refused.what
    );
    let class = cluster.class().await;
    assert!(!json!(class.status).to_string().contains("secret"), "{}", refused.what);
}

// AWS-399
#[tokio::test(start_paused = true)]
async fn a_class_that_ec2_refuses_says_why_and_others_go_on() {
    for refused in &REFUSED {
        let cluster = cluster(things_of_others).await;
        let (from, to) = refused.replace;
        let spec = format!("spec:\n{}", refused.add);
        let spec = spec.replace(OVERSIZED, &"x".repeat(16_384));
        let text = GETTING_STARTED.replacen(from, to, 1).replacen("spec:", &spec, 1);
        cluster.apply(&text).await;
        cluster.apply(OTHER_TEAM).await;
        is_refused(&cluster, refused).await;
        cluster.stop().await;
    }
}

/// A class that was ready may be changed so that EC2 refuses it.
#[tokio::test(start_paused = true)]
async fn a_running_class_that_becomes_refused_stops_launching_until_it_is_mended() {
    for (broken, mended) in [
        (json!({"role": "nobody"}), json!({"role": "KarpenterNodeRole-kerf"})),
        (
            json!({"role": null, "instanceProfile": "nothing"}),
            json!({"role": "KarpenterNodeRole-kerf", "instanceProfile": null}),
        ),
        (
            json!({"securityGroupSelectorTerms": [{"id": "sg-0other"}]}),
            json!({"securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}]}),
        ),
        (
            json!({"userData": "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx"}),
            json!({"userData": null}),
        ),
    ] {
        let cluster = cluster(things_of_others).await;
        cluster.apply(GETTING_STARTED).await;
        cluster
            .until("all pods run", 10, async |cluster| cluster.running_pods().await == 5)
            .await;
        let before = cluster.instances().len();
        cluster.patch_class(broken.clone()).await;
        cluster
            .until("the class is not ready", 5, async |cluster| {
                let class = cluster.class().await;
                find(&class.status.conditions, "Ready").is_some_and(Condition::is_false)
            })
            .await;
        cluster.aws.with(|account, _| account.take_calls());
        cluster.scale(40).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let calls = cluster.aws.with(|account, _| account.take_calls());
        let is_launch = |call: &&kerf_aws_sandbox::account::Call| {
            call.action == "CreateFleet" && !call.parameters.contains_key("DryRun")
        };
        assert_eq!(calls.iter().filter(is_launch).count(), 0, "{broken}");
        assert_eq!(cluster.instances().len(), before, "{broken}: nodes that run stay");
        cluster.patch_class(mended).await;
        cluster
            .until("all pods run again", 60, async |cluster| {
                cluster.running_pods().await == 40
            })
            .await;
        cluster.stop().await;
    }
}

const KEY: &str = "arn:aws:kms:us-east-1:111122223333:key/1";

fn encrypted_by(key: &str) -> serde_json::Value {
    json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", "encrypted": true, "kmsKeyID": key}}]})
}

/// CreateFleet answers before EC2 looks at the key.
// AWS-262
#[tokio::test(start_paused = true)]
async fn a_key_that_does_not_exist_costs_a_few_launches() {
    let cluster = cluster(|account| {
        account.kms_keys.insert(KEY.to_owned());
    })
    .await;
    let (class, objects) = GETTING_STARTED.split_once("\n---\n").unwrap();
    cluster.apply(class).await;
    cluster.patch_class(encrypted_by("alias/misspelt")).await;
    cluster.apply(objects).await;
    cluster.apply(OTHER_TEAM).await;
    let refused = Refused {
        what: "a key that does not exist",
        replace: ("", ""),
        add: "",
        condition: "ValidationSucceeded",
        reason: "InstanceEndedAtLaunch",
        says: &["Client.InternalError", "kmsKeyID in spec.blockDeviceMappings"],
    };
    let started = tokio::time::Instant::now();
    cluster
        .until(refused.what, 5, async |cluster| says(&cluster.class().await, &refused))
        .await;
    cluster
        .until("the pool is not ready", 1, async |cluster| {
            !pool_is_ready(cluster).await
        })
        .await;
    let launched = |cluster: &Cluster| {
        cluster.aws.with(|account, _| {
            let of_pool = |one: &&kerf_aws_sandbox::account::Instance| {
                one.tags
                    .get("karpenter.sh/nodepool")
                    .is_some_and(|pool| pool == "default")
            };
            account.instances.values().filter(of_pool).count()
        })
    };
    let before = launched(&cluster);
    println!(
        "a wrong KMS key: {before} launches, the pool is not ready after {} s",
        started.elapsed().as_secs()
    );
    assert!((2..=6).contains(&before), "{before} launches");
    cluster
        .until("pods of the other class run", 10, async |cluster| {
            cluster.running_pods().await == 2
        })
        .await;
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!(launched(&cluster), before, "launches in vain");
    cluster.patch_class(encrypted_by(KEY)).await;
    cluster
        .until("all pods run", 10, async |cluster| cluster.running_pods().await == 7)
        .await;
    cluster.stop().await;
}

// AWS-078, AWS-414
#[tokio::test(start_paused = true)]
async fn a_role_that_may_not_be_passed_is_named_and_others_go_on() {
    let cluster = cluster(|account| {
        account.roles.insert("admin".to_owned());
        account.denied.insert("iam:PassRole:admin".to_owned());
    })
    .await;
    let refused = Refused {
        what: "a role that may not be passed",
        replace: (ROLE, "  role: admin\n"),
        add: "",
        condition: "ValidationSucceeded",
        reason: "CreateFleetAuthCheckFailed",
        says: &["UnauthorizedOperation", "iam:PassRole", "kerf manifests --iam"],
    };
    let (from, to) = refused.replace;
    cluster.apply(&GETTING_STARTED.replacen(from, to, 1)).await;
    cluster.apply(OTHER_TEAM).await;
    is_refused(&cluster, &refused).await;
    let class = cluster.class().await;
    let said = find(&class.status.conditions, refused.condition).unwrap().message();
    assert!(said.ends_with("because no identity-based policy allows it"), "{said}");
    cluster.stop().await;
}

// AWS-087
#[tokio::test(start_paused = true)]
async fn a_profile_that_may_not_be_made_is_said_once() {
    let cluster = cluster(|account| {
        account.denied.insert("iam:CreateInstanceProfile".to_owned());
    })
    .await;
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("the class says why", 5, async |cluster| {
            let class = cluster.class().await;
            let profile = find(&class.status.conditions, "InstanceProfileReady").cloned();
            profile.is_some_and(|one| {
                one.reason.as_deref() == Some("AccessDenied") && one.message().contains("kerf manifests --iam")
            })
        })
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = cluster.class().await.metadata.resource_version;
    cluster.aws.with(|account, _| account.take_calls());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let calls = cluster.aws.with(|account, _| account.take_calls());
    let names: BTreeSet<_> = calls
        .iter()
        .filter(|call| call.action == "CreateInstanceProfile")
        .map(|call| call.parameters["InstanceProfileName"].clone())
        .collect();
    assert!(names.len() > 1, "each try has another name: {names:?}");
    assert_eq!(
        cluster.class().await.metadata.resource_version,
        before,
        "nothing is written"
    );
    cluster.stop().await;
}

/// Zones in which the class has no subnet are no zones to launch in.
#[tokio::test(start_paused = true)]
async fn pods_for_a_zone_without_subnet_wait_without_a_launch() {
    let cluster = cluster(|account| account.subnets.truncate(2)).await;
    let text = GETTING_STARTED.replace(
        "      terminationGracePeriodSeconds: 0",
        "      terminationGracePeriodSeconds: 0\n      nodeSelector: {topology.kubernetes.io/zone: us-east-1c}",
    );
    cluster.apply(&text).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(cluster.claims().await.is_empty() && cluster.instances().is_empty());
    let calls = cluster.aws.with(|account, _| account.take_calls());
    let is_launch = |call: &&kerf_aws_sandbox::account::Call| {
        call.action == "CreateFleet" && !call.parameters.contains_key("DryRun")
    };
    assert_eq!(calls.iter().filter(is_launch).count(), 0);
    // The pods can go as soon as there is one.
    let class = cluster.class().await;
    assert!(find(&class.status.conditions, "Ready").is_some_and(Condition::is_true));
    cluster.aws.with(|account, _| {
        let mut third = account.subnets[0].clone();
        third.id = "subnet-0third".to_owned();
        third.zone = account.zones[2].clone();
        account.subnets.push(third);
    });
    cluster
        .until("all pods run", 20, async |cluster| cluster.running_pods().await == 5)
        .await;
    cluster.stop().await;
}

/// A machine on which nothing has credentials.
#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let error = CredentialsError::not_loaded("no providers in chain provided credentials");
        future::ProvideCredentials::ready(Err(error))
    }
}

// AWS-333
#[tokio::test(start_paused = true)]
async fn a_start_without_access_says_in_one_line_what_to_do() {
    let refused = |code: &str, message: &str| Refusal::new(code, message).with_status(403);
    let cases = [
        (
            refused("ExpiredToken", "The security token included in the request is expired"),
            "renew the session token",
        ),
        (
            refused(
                "RequestExpired",
                "Request has expired. Timestamp date is 2020-01-01T00:00:00Z",
            ),
            "clock",
        ),
        (
            refused(
                "AuthFailure",
                "AWS was not able to validate the provided access credentials",
            ),
            "AWS_REGION",
        ),
        (
            refused("OptInRequired", "You are not subscribed to this service."),
            "enable the region",
        ),
        (
            refused(
                "UnauthorizedOperation",
                "You are not authorized to perform this operation.",
            ),
            "kerf manifests --iam",
        ),
    ];
    for (refusal, remedy) in cases {
        let world = fixture::world();
        world.faults.refuse("DescribeInstanceTypes", &refusal, 10);
        let error = world.connection.check().await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ConnectError::Unusable { .. }));
        for part in ["us-east-1", &refusal.code, remedy] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\n'), "{text}");
    }
    // Nothing answers.
    let world = fixture::world();
    world.faults.lose("DescribeInstanceTypes", 10);
    let text = world.connection.check().await.unwrap_err().to_string();
    assert!(
        text.contains("NAT gateway or VPC endpoints") && !text.contains('\n'),
        "{text}"
    );
    // Nobody has credentials.
    let world = fixture::world();
    let connection = connect_as(&world.sandbox, &world.faults, &world.metrics, NoCredentials).unwrap();
    let error = connection.check().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ConnectError::NoCredentials(_)), "{text}");
    assert!(
        text.starts_with("no AWS credentials: ") && text.contains("EKS Pod Identity") && !text.contains('\n'),
        "{text}"
    );
    // The account does not know the key.
    let world = fixture::world();
    world
        .sandbox
        .with(|account, _| "AKIAOTHER".clone_into(&mut account.access_key));
    let text = world.connection.check().await.unwrap_err().to_string();
    for part in ["AuthFailure", "secret", "the clock of this machine"] {
        assert!(text.contains(part), "{text}");
    }
}

/// Credentials that end while the controller runs: classes that nothing is known about say so, those that are ready stay ready, and all goes
/// on once there are others.
#[tokio::test(start_paused = true)]
async fn credentials_that_end_later_are_in_the_condition_and_cost_nothing() {
    let cluster = cluster(|_| {}).await;
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("all pods run", 10, async |cluster| cluster.running_pods().await == 5)
        .await;
    let nodes = cluster.nodes().await.len();
    let key = cluster
        .aws
        .with(|account, _| std::mem::replace(&mut account.access_key, "AKIAOTHER".to_owned()));
    cluster.apply(OTHER_TEAM).await;
    cluster
        .until("the new class says why", 10, async |cluster| {
            let other = Api::<EC2NodeClass>::all(cluster.client()).get("other").await.unwrap();
            let subnets = find(&other.status.conditions, "SubnetsReady").cloned();
            subnets.is_some_and(|one| {
                one.reason.as_deref() == Some("AuthFailure") && one.message().contains("check access key")
            })
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    let class = cluster.class().await;
    assert!(find(&class.status.conditions, "Ready").is_some_and(Condition::is_true));
    assert_eq!((cluster.nodes().await.len(), cluster.running_pods().await), (nodes, 5));
    cluster.aws.with(|account, _| account.access_key = key);
    cluster
        .until("pods of the new class run", 30, async |cluster| {
            cluster.running_pods().await == 7
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_logged() {
    // User data in plain text and as it is sent, and what calls are signed with.
    let archive = kerf_aws::user_data::encode("MIME-Version: 1.0");
    let settings = kerf_aws::user_data::encode("[settings");
    let secrets = [
        "hunter2-of-the-archive",
        "hunter2-of-the-settings",
        &archive[..20],
        &settings[..12],
        "sandbox-secret-key",
        "sandbox-session-token",
    ];
    let log = CapturedLog::start();
    for (alias, data) in [
        ("al2023@latest", "#!/bin/bash\nexport TOKEN=hunter2-of-the-archive\n"),
        (
            "al2023@latest",
            "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nhunter2-of-the-archive",
        ),
        (
            "bottlerocket@latest",
            "[settings.kubernetes]\nmotd = \"hunter2-of-the-settings\"\n",
        ),
        (
            "bottlerocket@latest",
            "[settings\nhunter2-of-the-settings = \"hunter2-of-the-settings\"\n",
        ),
    ] {
        let cluster = cluster(|_| {}).await;
        let text = GETTING_STARTED.replace("al2023@latest", alias);
        let (objects, deployment) = text.rsplit_once("\n---\n").unwrap();
        cluster.apply(objects).await;
        let api = Api::<EC2NodeClass>::all(cluster.client());
        let patch = Patch::Merge(json!({"spec": {"userData": data}}));
        api.patch("default", &PatchParams::default(), &patch).await.unwrap();
        cluster.apply(deployment).await;
        // Some calls fail, and what fails is logged.
        let refusal = Refusal::new("InternalError", "injected").with_status(500);
        for action in ["CreateLaunchTemplate", "CreateFleet", "DescribeImages", "GetParameter"] {
            cluster.faults.refuse(action, &refusal, 4);
        }
        tokio::time::sleep(Duration::from_secs(600)).await;
        cluster.aws.with(|account, _| {
            account.denied.insert("ec2:CreateLaunchTemplate".to_owned());
        });
        cluster.patch_class(json!({"tags": {"a": "b"}})).await;
        tokio::time::sleep(Duration::from_secs(1200)).await;
        cluster.stop().await;
    }
    let lines = log.all();
    assert!(lines.len() > 50, "{} lines", lines.len());
    for line in lines {
        let text = line.to_string();
        for secret in secrets {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
