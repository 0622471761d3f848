//! The CustomResourceDefinitions, kept by hand as YAML beside this file.
//!
//! Providers restrict labels of their own domain by one more rule in a few places. These places are marked in the YAML by a
//! comment, `# provider rules: <place>`, which is replaced by the provider's rule when the text is read.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// Whose label rules the definitions carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// No provider's: the core rules alone.
    Core,
    /// The simulated provider's.
    Kwok,
    /// The AWS provider's.
    Aws,
}

/// One CustomResourceDefinition.
#[derive(Clone, Debug)]
pub struct Crd {
    /// `<plural>.<group>`.
    pub name: &'static str,
    /// The manifest as text, ready to be shipped.
    pub yaml: String,
    /// The manifest as data.
    pub value: Value,
}

/// The definitions of a provider, core kinds first.
pub fn crds(provider: Provider) -> Vec<Crd> {
    static CORE: LazyLock<Vec<Crd>> = LazyLock::new(|| build(Provider::Core));
    static KWOK: LazyLock<Vec<Crd>> = LazyLock::new(|| build(Provider::Kwok));
    static AWS: LazyLock<Vec<Crd>> = LazyLock::new(|| build(Provider::Aws));
    match provider {
        Provider::Core => CORE.clone(),
        Provider::Kwok => KWOK.clone(),
        Provider::Aws => AWS.clone(),
    }
}

/// The definition of EC2NodeClass with what later versions allow in `spec.kubelet`: expressions, and every field of kubelet's
/// configuration. Another definition, and one without either, stays as it is.
pub fn with_later_kubelet_fields(mut crd: Crd, expressions: bool, every_field: bool) -> Crd {
    if crd.name != EC2_NODE_CLASSES || !(expressions || every_field) {
        return crd;
    }
    let versions = crd.value.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        let kubelet = version.pointer_mut("/schema/openAPIV3Schema/properties/spec/properties/kubelet");
        let Some(kubelet) = kubelet else { continue };
        if every_field && let Some(kubelet) = kubelet.as_object_mut() {
            kubelet.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
        }
        if !expressions {
            continue;
        }
        if let Some(pods) = kubelet.pointer_mut("/properties/maxPods") {
            *pods = json!({
                "description": "Most pods on a node: a number, or a CEL expression that gives it for an instance type.",
                "x-kubernetes-int-or-string": true,
                "minimum": 0,
            });
        }
        for map in ["kubeReserved", "systemReserved"] {
            let values = kubelet.pointer_mut(&format!("/properties/{map}/additionalProperties"));
            if let Some(values) = values.and_then(Value::as_object_mut) {
                values.remove("pattern");
            }
        }
    }
    // JSON is YAML, too.
    crd.yaml = format!("{:#}", crd.value);
    crd
}

const NODE_POOLS: &str = "nodepools.karpenter.sh";
const NODE_CLAIMS: &str = "nodeclaims.karpenter.sh";
const NODE_OVERLAYS: &str = "nodeoverlays.karpenter.sh";
const CAPACITY_BUFFERS: &str = "capacitybuffers.autoscaling.x-k8s.io";
const NODE_REPAIR_POLICIES: &str = "noderepairpolicies.kerf.sh";
const KWOK_NODE_CLASSES: &str = "kwoknodeclasses.karpenter.kwok.sh";

const EC2_NODE_CLASSES: &str = "ec2nodeclasses.karpenter.k8s.aws";

const CORE_FILES: [(&str, &str); 5] = [
    (NODE_POOLS, include_str!("crds/nodepools.yaml")),
    (NODE_CLAIMS, include_str!("crds/nodeclaims.yaml")),
    (NODE_OVERLAYS, include_str!("crds/nodeoverlays.yaml")),
    (CAPACITY_BUFFERS, include_str!("crds/capacitybuffers.yaml")),
    (NODE_REPAIR_POLICIES, include_str!("crds/noderepairpolicies.yaml")),
];
const KWOK_FILES: [(&str, &str); 1] = [(KWOK_NODE_CLASSES, include_str!("crds/kwoknodeclasses.yaml"))];

const AWS_FILES: [(&str, &str); 1] = [(EC2_NODE_CLASSES, include_str!("crds/ec2nodeclasses.yaml"))];

fn build(provider: Provider) -> Vec<Crd> {
    let own: &[(&str, &str)] = match provider {
        Provider::Core => &[],
        Provider::Aws => &AWS_FILES,
        Provider::Kwok => &KWOK_FILES,
    };
    let files = CORE_FILES.iter().chain(own);
    files.map(|(name, base)| flavoured(name, base, provider)).collect()
}

fn flavoured(name: &'static str, base: &str, provider: Provider) -> Crd {
    let mut yaml = String::with_capacity(base.len());
    for line in base.lines() {
        match line
            .trim_start()
            .strip_prefix("# provider rules: ")
            .and_then(RulePlace::parse)
        {
            None => {
                yaml.push_str(line);
                yaml.push('\n');
            }
            Some(place) => {
                let indent = line.len() - line.trim_start().len();
                if let Some(rule) = label_rule(provider, name, place) {
                    rule.write(&mut yaml, indent, place);
                }
            }
        }
    }
    #[expect(
        clippy::expect_used,
        reason = "the text is a constant of this crate, which a test parses"
    )]
    let value = serde_saphyr::from_str(&yaml).expect("invariant: the embedded manifests are valid YAML");
    Crd { name, yaml, value }
}

/// A place in a definition that takes a provider's rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RulePlace {
    /// On the key of a requirement.
    RequirementKey,
    /// On the label map of a template.
    TemplateLabel,
}

impl RulePlace {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "requirement-key" => Some(Self::RequirementKey),
            "template-label" => Some(Self::TemplateLabel),
            _ => None,
        }
    }
}

/// Closes a domain but for listed labels.
struct LabelRule {
    domain: &'static str,
    allowed: Vec<&'static str>,
}

impl LabelRule {
    fn write(&self, yaml: &mut String, indent: usize, place: RulePlace) {
        let domain = self.domain;
        let allowed = self
            .allowed
            .iter()
            .map(|name| format!("\"{domain}/{name}\""))
            .collect::<Vec<_>>()
            .join(", ");
        let test = |key| format!("{key} in [{allowed}] || !{key}.find(\"^([^/]+)\").endsWith(\"{domain}\")");
        let rule = match place {
            RulePlace::RequirementKey => test("self"),
            RulePlace::TemplateLabel => format!("self.all(x, {})", test("x")),
        };
        let blank = " ".repeat(indent);
        yaml.push_str(&format!(
            "{blank}- message: label domain \"{domain}\" is restricted\n{blank}  rule: {rule}\n"
        ));
    }
}

/// The rule a provider puts in a place (API-150, API-151).
fn label_rule(provider: Provider, crd: &str, place: RulePlace) -> Option<LabelRule> {
    match (provider, crd, place) {
        (Provider::Kwok, NODE_POOLS | NODE_CLAIMS, RulePlace::RequirementKey) => Some(LabelRule {
            domain: "karpenter.kwok.sh",
            allowed: vec![
                "kwoknodeclass",
                "instance-cpu",
                "instance-memory",
                "instance-family",
                "instance-size",
            ],
        }),
        (Provider::Aws, NODE_OVERLAYS, _) => Some(LabelRule {
            domain: "karpenter.k8s.aws",
            allowed: AWS_INSTANCE_LABELS.to_vec(),
        }),
        (Provider::Aws, _, _) => {
            // The label rule names one label twice; kept, because a comparison of rules is a comparison of texts.
            let again = matches!(place, RulePlace::TemplateLabel).then_some("capacity-reservation-interruptible");
            let reservation = [
                "instance-tenancy",
                "capacity-reservation-type",
                "capacity-reservation-id",
                "capacity-reservation-interruptible",
            ];
            let allowed = reservation
                .into_iter()
                .chain(again)
                .chain(AWS_INSTANCE_LABELS)
                .chain(["placement-group-id", "placement-group-partition"])
                .collect();
            Some(LabelRule {
                domain: "karpenter.k8s.aws",
                allowed,
            })
        }
        (Provider::Core | Provider::Kwok, _, _) => None,
    }
}

/// Labels that say what an instance is, in the order of the rule.
const AWS_INSTANCE_LABELS: [&str; 22] = [
    "ec2nodeclass",
    "instance-encryption-in-transit-supported",
    "instance-category",
    "instance-hypervisor",
    "instance-family",
    "instance-generation",
    "instance-local-nvme",
    "instance-size",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-memory",
    "instance-ebs-bandwidth",
    "instance-network-bandwidth",
    "instance-gpu-name",
    "instance-gpu-manufacturer",
    "instance-gpu-count",
    "instance-gpu-memory",
    "instance-accelerator-name",
    "instance-accelerator-manufacturer",
    "instance-accelerator-count",
    "instance-capability-flex",
];
