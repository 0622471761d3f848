//! The additions of a provider to the rules of labels, volumes and node classes (SCH-007).

use kerf_api::{DefaultConstraint, LabelRules, StartupTaints};
use kerf_model::intern::{Interner, Sym};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The provider's additions.
#[derive(Clone, Debug)]
pub struct Conventions {
    /// Well-known, restricted and deprecated labels (SCH-099, SCH-107, SCH-108).
    pub labels: LabelRules,
    /// Volume provisioners whose volumes are refused (SCH-173).
    pub unsupported_provisioners: BTreeSet<String>,
    /// Topology keys storage classes may not use (SCH-172).
    pub unsupported_topology_keys: BTreeSet<String>,
    /// The label key that carries a capacity reservation's id.
    pub reservation_key: Option<String>,
    /// Group and kind of the node classes the provider serves (SCH-136); empty for all.
    pub node_classes: BTreeSet<(String, String)>,
    /// Whether pods with resource claims are refused (SCH-005).
    pub refuse_resource_claims: bool,
    /// Taints that other components remove while a node starts, declared or not.
    pub startup_taints: StartupTaints,
    /// Topology spread constraints of pods that declare none.
    pub default_constraints: Arc<[DefaultConstraint]>,
}

impl Conventions {
    /// A provider that adds nothing to these rules of labels.
    pub fn new(labels: LabelRules) -> Self {
        Self {
            labels,
            unsupported_provisioners: BTreeSet::new(),
            unsupported_topology_keys: BTreeSet::new(),
            reservation_key: None,
            node_classes: BTreeSet::new(),
            refuse_resource_claims: true,
            startup_taints: StartupTaints::default(),
            default_constraints: Arc::default(),
        }
    }
}

impl Default for Conventions {
    fn default() -> Self {
        Self::new(LabelRules::core())
    }
}

/// In-tree volume plugins and the CSI drivers that replaced them (SCH-174).
const CSI_TRANSLATIONS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// The CSI driver that serves an in-tree provisioner's volumes, else the provisioner itself (SCH-174).
pub(super) fn csi_driver(provisioner: &str) -> &str {
    CSI_TRANSLATIONS
        .iter()
        .find_map(|(in_tree, driver)| (*in_tree == provisioner).then_some(*driver))
        .unwrap_or(provisioner)
}

/// The conventions, with their ids.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) given: Conventions,
    /// Sorted by id.
    pub(super) well_known: Arc<[Sym]>,
    pub(super) reservation_key: Option<Sym>,
}

impl Tables {
    pub(super) fn new(given: &Conventions, interner: &Interner) -> Self {
        let reservation_key = given.reservation_key.as_deref().map(|key| interner.intern(key));
        let mut well_known: Vec<Sym> = given.labels.well_known().map(|key| interner.intern(key)).collect();
        well_known.extend(reservation_key);
        well_known.sort_unstable();
        well_known.dedup();
        Self {
            given: given.clone(),
            well_known: well_known.into(),
            reservation_key,
        }
    }

    pub(super) fn key(&self, key: &str, interner: &Interner) -> Sym {
        interner.intern(self.given.labels.normalize(key))
    }

    pub(super) fn value(&self, key: Sym, value: &str, interner: &Interner) -> Sym {
        interner.intern(self.given.labels.normalize_value(interner.text(key), value))
    }
}
