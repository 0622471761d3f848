//! Mistakes in a spec that the schema lets pass: rules of the schema that check one term where all must obey, objects from before a rule
//! existed, and texts that no quantity or percentage is.

use super::spec::EC2NodeClassSpec;
use kerf_units::quantity::Quantity;

/// One mistake in a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    /// A tag that only the controller sets.
    #[error("\"{key}\" tag does not pass tag validation requirements")]
    RestrictedTag {
        /// The tag's key.
        key: String,
    },
    /// A selector term whose fields do not go together, or that has none.
    #[error("{field}[{index}] {problem}")]
    Term {
        /// The list of terms.
        field: &'static str,
        /// Position in the list.
        index: usize,
        /// What is wrong with the term.
        problem: &'static str,
    },
    /// A value that cannot be read as a quantity or percentage.
    #[error("kubelet.{field}[{key}] has the value \"{value}\", which is {problem}")]
    Kubelet {
        /// The map.
        field: &'static str,
        /// The key in the map.
        key: String,
        /// The value as written.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Tag keys that only the controller sets (AWS-359).
const RESTRICTED_TAGS: [&str; 4] = [
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
    "eks:eks-cluster-name",
];

/// Whether a tag may not be set by users: the tags that mark ownership (AWS-359).
pub fn is_restricted_tag(key: &str) -> bool {
    RESTRICTED_TAGS.contains(&key) || key.strip_prefix("kubernetes.io/cluster/").is_some_and(is_cluster_name)
}

/// Whether a text begins with a letter or digit and has only letters, digits, `-` and `_`.
fn is_cluster_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

const AMBIGUOUS: &str = "has more than one of the fields that exclude each other";
const EMPTY: &str = "selects nothing";

impl EC2NodeClassSpec {
    /// The mistakes that the schema lets pass, in the order of the fields (AWS-016, AWS-071).
    pub fn faults(&self) -> Vec<SpecFault> {
        let mut faults = Vec::new();
        self.term_faults(&mut faults);
        let tags = self.tags.iter().flatten().map(|(key, _)| key);
        let restricted = tags.filter(|key| is_restricted_tag(key));
        faults.extend(restricted.map(|key| SpecFault::RestrictedTag { key: key.clone() }));
        self.kubelet_faults(&mut faults);
        faults
    }

    fn term_faults(&self, faults: &mut Vec<SpecFault>) {
        let mut judge = |field, index, set: usize, exclusive: bool| {
            let problem = match set {
                0 => EMPTY,
                _ if exclusive => AMBIGUOUS,
                _ => return,
            };
            faults.push(SpecFault::Term { field, index, problem });
        };
        for (index, term) in self.subnet_selector_terms.iter().enumerate() {
            let set = usize::from(term.id.is_some()) + usize::from(term.tags.is_some());
            judge("subnetSelectorTerms", index, set, set > 1);
        }
        for (index, term) in self.security_group_selector_terms.iter().enumerate() {
            let set =
                usize::from(term.id.is_some()) + usize::from(term.tags.is_some()) + usize::from(term.name.is_some());
            judge("securityGroupSelectorTerms", index, set, set > 1);
        }
        for (index, term) in self.capacity_reservation_selector_terms.iter().enumerate() {
            let others = usize::from(term.tags.is_some()) + usize::from(term.instance_match_criteria.is_some());
            let with_owner = others + usize::from(term.owner_id.is_some());
            let set = others + usize::from(term.id.is_some());
            judge(
                "capacityReservationSelectorTerms",
                index,
                set,
                term.id.is_some() && with_owner > 0,
            );
        }
        let several = self.ami_selector_terms.len() > 1;
        for (index, term) in self.ami_selector_terms.iter().enumerate() {
            let others = [&term.name, &term.owner].into_iter().flatten().count() + usize::from(term.tags.is_some());
            let unique = [&term.id, &term.alias].into_iter().flatten().count();
            let set = others + unique + usize::from(term.ssm_parameter.is_some());
            let exclusive = unique > 1 || (unique == 1 && others > 0) || (term.alias.is_some() && several);
            judge("amiSelectorTerms", index, set, exclusive);
        }
    }

    fn kubelet_faults(&self, faults: &mut Vec<SpecFault>) {
        let Some(kubelet) = &self.kubelet else { return };
        let quantities = [
            ("systemReserved", &kubelet.system_reserved),
            ("kubeReserved", &kubelet.kube_reserved),
        ];
        for (field, map) in quantities {
            for (key, value) in map.iter().flatten() {
                if value
                    .parse::<Quantity>()
                    .map_or(true, |quantity| quantity.is_negative())
                {
                    faults.push(SpecFault::Kubelet {
                        field,
                        key: key.clone(),
                        value: value.clone(),
                        problem: "no quantity of zero or more",
                    });
                }
            }
        }
        let thresholds = [
            ("evictionHard", &kubelet.eviction_hard),
            ("evictionSoft", &kubelet.eviction_soft),
        ];
        for (field, map) in thresholds {
            for (key, value) in map.iter().flatten() {
                if !is_threshold(value) {
                    faults.push(SpecFault::Kubelet {
                        field,
                        key: key.clone(),
                        value: value.clone(),
                        problem: "neither a quantity nor a percentage",
                    });
                }
            }
        }
    }
}

/// Whether a text is a quantity, or a percentage from 0 to 100 (AWS-019).
fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(percent) => percent
            .parse::<f64>()
            .is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => text.parse::<Quantity>().is_ok(),
    }
}
