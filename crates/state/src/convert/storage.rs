//! Volume claims, volumes and storage classes, as far as they restrict where a pod may run (section 14 of `docs/behaviour/scheduling.md`).

use super::Converter;
use super::conventions::csi_driver;
use crate::lean::{LeanCsiNode, LeanPv, LeanPvc, LeanStorageClass};
use kerf_model::intern::sym;
use kerf_model::pod::{PodFault, PodVolume};
use kerf_model::requirement::{Requirement, Requirements};
use std::sync::Arc;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// A PersistentVolumeClaim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PvcFacts {
    /// The volume it is bound to.
    pub volume: Option<Arc<str>>,
    /// Its storage class, as admission wrote it (SCH-174).
    pub class: Option<Arc<str>>,
    /// It is being deleted.
    pub deleting: bool,
    /// Its volume is gone.
    pub lost: bool,
    /// The binder has finished with it.
    pub bind_completed: bool,
}

/// A PersistentVolume.
#[derive(Clone, PartialEq, Debug)]
pub struct PvFacts {
    /// It is being deleted.
    pub deleting: bool,
    /// The CSI driver that attaches it, `None` where attaching is not limited (SCH-174).
    pub driver: Option<Arc<str>>,
    /// Where it can be reached; empty for everywhere (SCH-178, SCH-179).
    pub topology: Vec<Requirements>,
}

/// When a storage class binds its volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingMode {
    /// Before a pod uses them.
    Immediate,
    /// Where the first pod is scheduled.
    WaitForFirstConsumer,
}

/// A StorageClass.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassFacts {
    /// The name of the provisioner, as written.
    pub provisioner: Arc<str>,
    /// The CSI driver that attaches them.
    pub driver: Option<Arc<str>>,
    /// When they are bound.
    pub binding: BindingMode,
    /// Where they may be made; empty for everywhere.
    pub topology: Vec<Requirements>,
    /// A topology key the provider does not support is used (SCH-172).
    pub unsupported_topology: bool,
}

/// The objects that a pod's volume refers to, for [`Converter::volume`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeSource<'a> {
    /// The claim.
    pub(crate) claim: &'a PvcFacts,
    /// The volume it names, if there is one of that name.
    pub(crate) volume: Option<&'a PvFacts>,
    /// The class it names, if there is one of that name.
    pub(crate) class: Option<&'a ClassFacts>,
}

impl Converter {
    /// Converts a claim.
    pub fn pvc(&mut self, lean: &LeanPvc) -> PvcFacts {
        let annotations = lean.metadata.annotations.as_ref();
        PvcFacts {
            volume: self.named(&lean.spec.volume_name),
            class: self.named(&lean.spec.storage_class_name),
            deleting: lean.metadata.deletion_timestamp.is_some(),
            lost: lean.status.phase == "Lost",
            bind_completed: annotations.is_some_and(|all| all.contains_key(BIND_COMPLETED)),
        }
    }

    fn named(&mut self, name: &str) -> Option<Arc<str>> {
        (!name.is_empty()).then(|| self.text(name))
    }

    /// Converts a volume.
    pub fn pv(&mut self, lean: &LeanPv) -> PvFacts {
        let spec = &lean.spec;
        let driver = match (&spec.csi, &spec.aws_elastic_block_store) {
            (Some(csi), _) => Some(csi.driver.as_str()),
            (None, Some(_)) => Some("ebs.csi.aws.com"),
            (None, None) => None,
        };
        // A disk of one node names it; a replacement node has another name and cannot have the disk either way, so upstream lets it pass.
        let local = spec.local.is_some() || spec.host_path.is_some();
        let terms = spec
            .node_affinity
            .required
            .iter()
            .flat_map(|selector| &selector.node_selector_terms);
        let topology = terms
            .filter(|term| !term.match_expressions.is_empty())
            .map(|term| {
                let expressions = self
                    .node_term(term)
                    .into_iter()
                    .filter(|r| !(local && r.key == sym::HOSTNAME));
                Requirements::from_all(expressions, &self.interner)
            })
            .collect();
        PvFacts {
            deleting: lean.metadata.deletion_timestamp.is_some(),
            driver: driver.map(|driver| self.text(driver)),
            topology,
        }
    }

    /// Converts a storage class.
    pub fn storage_class(&mut self, lean: &LeanStorageClass) -> ClassFacts {
        let unsupported = &self.conventions.given.unsupported_topology_keys;
        let keys = || {
            lean.allowed_topologies
                .iter()
                .flat_map(|term| &term.match_label_expressions)
        };
        let unsupported_topology = keys().any(|expression| unsupported.contains(&expression.key));
        let terms = lean
            .allowed_topologies
            .iter()
            .filter(|term| !term.match_label_expressions.is_empty());
        let topology = terms
            .map(|term| {
                let expressions = term.match_label_expressions.iter().map(|e| {
                    let key = self.label_key(&e.key);
                    Requirement::any_of(key, e.values.iter().map(|value| self.label_value(key, value)))
                });
                Requirements::from_all(expressions, &self.interner)
            })
            .collect();
        ClassFacts {
            driver: (!lean.provisioner.is_empty()).then(|| self.text(csi_driver(&lean.provisioner))),
            provisioner: self.text(&lean.provisioner),
            binding: match lean.volume_binding_mode.as_deref() {
                Some("WaitForFirstConsumer") => BindingMode::WaitForFirstConsumer,
                _ => BindingMode::Immediate,
            },
            topology,
            unsupported_topology,
        }
    }

    /// Attach limits by driver, sorted (SCH-069); a driver without a count is unlimited.
    pub fn volume_limits(&mut self, lean: &LeanCsiNode) -> Vec<(Arc<str>, u32)> {
        let mut limits: Vec<(Arc<str>, u32)> = lean
            .spec
            .drivers
            .iter()
            .filter_map(|driver| {
                let count = driver.allocatable.as_ref()?.count?;
                Some((self.text(&driver.name), u32::try_from(count).unwrap_or(0)))
            })
            .collect();
        limits.sort();
        limits.dedup_by(|a, b| a.0 == b.0);
        limits
    }

    /// The volume behind a claim, for attach limits and topology; what is missing constrains nothing (SCH-176, SCH-178).
    pub(crate) fn volume(&self, key: Arc<str>, source: VolumeSource<'_>) -> PodVolume {
        let (driver, topology) = match (&source.claim.volume, source.volume, source.class) {
            (Some(_), Some(volume), _) => (volume.driver.clone(), volume.topology.clone()),
            (None, _, Some(class)) => (class.driver.clone(), class.topology.clone()),
            (Some(_), None, _) | (None, _, None) => (None, Vec::new()),
        };
        PodVolume {
            claim: key,
            driver,
            topology,
        }
    }

    /// Why a waiting pod cannot use a claim, if so (SCH-170 to SCH-173).
    pub(crate) fn volume_fault(&self, source: VolumeSource<'_>) -> Option<PodFault> {
        let claim = source.claim;
        if claim.deleting {
            return fault("persistentvolumeclaim is being deleted");
        }
        if claim.lost {
            return fault("persistentvolumeclaim bound to non-existent persistentvolume");
        }
        match &claim.volume {
            Some(name) => self.bound_fault(name, source),
            None => self.unbound_fault(source),
        }
    }

    fn bound_fault(&self, name: &str, source: VolumeSource<'_>) -> Option<PodFault> {
        let Some(volume) = source.volume else {
            return fault(&format!(
                "failed to validate pvc, PersistentVolume \"{name}\" not found"
            ));
        };
        if volume.deleting {
            return fault("failed to validate pvc, persistentvolume is being deleted");
        }
        if !source.claim.bind_completed {
            return fault("pvc is considered unbound because it does not contain annotation");
        }
        let refused = &self.conventions.given.unsupported_provisioners;
        let driver = volume.driver.as_deref().filter(|driver| refused.contains(*driver));
        driver.and_then(|_| fault("failed to validate pvc, provisioner is not supported"))
    }

    fn unbound_fault(&self, source: VolumeSource<'_>) -> Option<PodFault> {
        let Some(name) = &source.claim.class else {
            return fault("unbound pvc must define a storage class");
        };
        let Some(class) = source.class else {
            return fault(&format!(
                "failed to validate pvc, failed to get storage class, StorageClass.storage.k8s.io \"{name}\" not found"
            ));
        };
        if class.binding == BindingMode::Immediate {
            return fault("failed to validate pvc, pvc with immediate volume binding mode must be bound");
        }
        if class.unsupported_topology {
            return fault("failed to validate pvc, storage class uses unsupported topology key");
        }
        let refused = &self.conventions.given.unsupported_provisioners;
        let is_refused =
            refused.contains(&*class.provisioner) || class.driver.as_deref().is_some_and(|d| refused.contains(d));
        if is_refused {
            fault("failed to validate pvc, provisioner is not supported")
        } else {
            None
        }
    }
}

/// The fault of a claim that does not exist (SCH-169).
pub(crate) fn missing_claim(name: &str) -> PodFault {
    PodFault::Volume(
        format!(
            "getting persistent volume claim, PersistentVolumeClaim \"{name}\" not found (PersistentVolumeClaim={name})"
        )
        .into(),
    )
}

fn fault(text: &str) -> Option<PodFault> {
    Some(PodFault::Volume(text.into()))
}
