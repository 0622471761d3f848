//! The existing nodes that pods were placed on, and what is left of each. All other nodes are read from the prepared snapshot, so that an
//! assignment costs what it places, not what the cluster has.

use crate::compile::classes::PodClass;
use crate::compile::queue::PodId;
use crate::compile::targets::{Attached, Target, TargetId, Targets};
use crate::dense::amounts::{Amounts, subtract};
use crate::dense::ids::IdVec;
use kerf_model::pod::HostPort;

/// A target that pods were placed on.
#[derive(Clone, Debug)]
pub(crate) struct UpdatedTarget {
    pub(crate) at: TargetId,
    /// The pods placed on it, as indices into the request.
    pub(crate) pods: Vec<PodId>,
    placeable: Amounts,
    ports: Vec<HostPort>,
    attached: Attached,
}

/// All targets that pods were placed on.
#[derive(Clone, Debug)]
pub(crate) struct UpdatedTargets {
    /// Per target: its position in `list` plus one, or zero.
    slots: IdVec<Target, u32>,
    list: Vec<UpdatedTarget>,
}

impl UpdatedTargets {
    pub(crate) fn new(targets: usize) -> Self {
        Self {
            slots: IdVec::filled(0, targets),
            list: Vec::new(),
        }
    }

    fn get(&self, at: TargetId) -> Option<&UpdatedTarget> {
        let slot = self.slots[at].checked_sub(1)?;
        self.list.get(slot as usize)
    }

    /// The targets in the order they got their first pod.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UpdatedTarget> {
        self.list.iter()
    }

    /// What pods may still use of a target.
    pub(crate) fn placeable<'x>(&'x self, targets: &'x Targets, at: TargetId) -> &'x [i64] {
        self.get(at)
            .map_or_else(|| targets.placeable(at), |node| &node.placeable)
    }

    /// The host ports used on a target.
    pub(crate) fn ports<'x>(&'x self, targets: &'x Targets, at: TargetId) -> &'x [HostPort] {
        self.get(at).map_or(&targets[at].ports, |node| &node.ports)
    }

    /// The volume claims attached to a target.
    pub(crate) fn attached<'x>(&'x self, targets: &'x Targets, at: TargetId) -> &'x Attached {
        self.get(at).map_or(&targets[at].attached, |node| &node.attached)
    }

    /// Places a pod on a target.
    pub(crate) fn place(&mut self, targets: &Targets, at: TargetId, class: &PodClass, pod: PodId) {
        let target = &targets[at];
        if self.slots[at] == 0 {
            self.list.push(UpdatedTarget {
                at,
                pods: Vec::new(),
                placeable: Amounts::from_slice(targets.placeable(at)),
                ports: target.ports.clone(),
                attached: target.attached.clone(),
            });
            self.slots[at] = self.list.len() as u32;
        }
        let node = &mut self.list[self.slots[at] as usize - 1];
        subtract(&mut node.placeable, &class.requests);
        node.ports.extend(class.shape.host_ports.iter().cloned());
        for volume in class.volumes.iter().filter(|_| !target.node.volume_limits.is_empty()) {
            if let Some(driver) = &volume.driver {
                node.attached
                    .entry(driver.clone())
                    .or_default()
                    .insert(volume.claim.clone());
            }
        }
        node.pods.push(pod);
    }
}
