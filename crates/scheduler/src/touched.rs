//! Existing nodes a run has placed pods on, and what is left of each. All others are read from the prepared snapshot, so that a run costs
//! what it places, not what there is.

use crate::amounts::{Amounts, subtract};
use crate::classes::Class;
use crate::nodes::{Attached, Targets};
use kerf_model::pod::HostPort;

/// A node that got pods.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its number among the targets.
    pub(crate) at: usize,
    /// The pods placed on it, as indices into the request.
    pub(crate) pods: Vec<u32>,
    placeable: Amounts,
    ports: Vec<HostPort>,
    attached: Attached,
}

/// All nodes that got pods.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    /// Per target: one more than its position in `list`, or zero.
    slots: Vec<u32>,
    list: Vec<Node>,
}

impl Touched {
    pub(crate) fn new(targets: usize) -> Self {
        Self {
            slots: vec![0; targets],
            list: Vec::new(),
        }
    }

    fn get(&self, at: usize) -> Option<&Node> {
        let slot = self.slots[at].checked_sub(1)?;
        self.list.get(slot as usize)
    }

    /// In the order in which they got their first pod.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.list.iter()
    }

    /// What pods may still take of a target.
    pub(crate) fn placeable<'x>(&'x self, targets: &'x Targets, at: usize) -> &'x [i64] {
        self.get(at)
            .map_or_else(|| targets.placeable(at), |node| &node.placeable)
    }

    /// The host ports held on a target.
    pub(crate) fn ports<'x>(&'x self, targets: &'x Targets, at: usize) -> &'x [HostPort] {
        self.get(at).map_or(&targets[at].ports, |node| &node.ports)
    }

    /// The volume claims attached to a target.
    pub(crate) fn attached<'x>(&'x self, targets: &'x Targets, at: usize) -> &'x Attached {
        self.get(at).map_or(&targets[at].attached, |node| &node.attached)
    }

    /// Books a pod on a target.
    pub(crate) fn place(&mut self, targets: &Targets, at: usize, class: &Class, pod: u32) {
        let target = &targets[at];
        if self.slots[at] == 0 {
            self.list.push(Node {
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
