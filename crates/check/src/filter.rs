//! kube-scheduler's filters for one pod: may it be bound to this node now, and if not, why, in kube-scheduler's words.
//!
//! The cluster comes as a [`Snapshot`] of which only nodes (with their bound pods), namespaces and the interner are read. Unlike for plans
//! taints must be those of the Node object, `node.kubernetes.io/unschedulable` included where the node is cordoned.

use crate::existing::label;
use crate::rules::expression::{all_hold, selects};
use crate::rules::selector::term_selects;
use crate::rules::{amounts, host_port, taint};
use crate::topology::affinity::Affinity;
use crate::topology::site::{Domain, Site, SiteVec};
use crate::topology::spread::{Spread, SpreadFault};
use kerf_model::intern::{Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Why a node is filtered out; prints as kube-scheduler says it. The order is that of its plugins.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum FilterReason {
    /// The node is cordoned.
    #[error("node(s) were unschedulable")]
    Unschedulable,
    /// An untolerated taint of effect NoSchedule or NoExecute.
    #[error("node(s) had untolerated taint {{{key}: {value}}}")]
    Taint {
        /// The taint's key.
        key: String,
        /// The taint's value.
        value: String,
    },
    /// Node selector or required node affinity.
    #[error("node(s) didn't match Pod's node affinity/selector")]
    NodeAffinity,
    /// A host port is taken.
    #[error("node(s) didn't have free ports for the requested pod ports")]
    Ports,
    /// The node's pod limit.
    #[error("Too many pods")]
    TooManyPods,
    /// Not enough of a resource.
    #[error("Insufficient {0}")]
    Insufficient(String),
    /// An attach limit.
    #[error("node(s) exceed max volume count")]
    VolumeCount,
    /// A volume is elsewhere.
    #[error("node(s) had volume node affinity conflict")]
    VolumeNodeAffinity,
    /// A topology spread constraint's key is not among the node's labels.
    #[error("node(s) didn't match pod topology spread constraints (missing required label)")]
    SpreadLabel,
    /// A topology spread constraint's skew.
    #[error("node(s) didn't match pod topology spread constraints")]
    Spread,
    /// Pod affinity.
    #[error("node(s) didn't match pod affinity rules")]
    PodAffinity,
    /// The pod's own anti-affinity.
    #[error("node(s) didn't match pod anti-affinity rules")]
    PodAntiAffinity,
    /// Anti-affinity of a pod that is there already.
    #[error("node(s) didn't satisfy existing pods anti-affinity rules")]
    ExistingAntiAffinity,
}

/// Whether `pod` may be bound to `node`, a node of `cluster`. For many nodes make one [`Filter`].
pub fn feasible(pod: &Pod, node: &Node, cluster: &Snapshot) -> Result<(), Vec<FilterReason>> {
    Filter::new(pod, cluster).node(node)
}

/// The facts about the whole cluster that the filters of one pod need.
pub struct Filter<'a> {
    pod: &'a Pod,
    cluster: &'a Snapshot,
    sites: SiteVec<Site<'a>>,
    spread: Vec<Spread<'a>>,
    affinity: Option<Affinity<'a>>,
    /// Where pods are that the pod's anti-affinity repels.
    repelled: BTreeSet<(Sym, Domain<'a>)>,
    /// Where pods are whose anti-affinity repels the pod.
    repelling: BTreeSet<(Sym, Domain<'a>)>,
}

impl<'a> Filter<'a> {
    /// Prepares to filter one pod.
    pub fn new(pod: &'a Pod, cluster: &'a Snapshot) -> Self {
        Self::knowing(pod, cluster, |_| true)
    }

    /// The same where it is known which nodes have pods with anti-affinity: for a pod without topology of its own no other node is read.
    pub fn knowing(pod: &'a Pod, cluster: &'a Snapshot, has_anti_affine: impl Fn(&Node) -> bool) -> Self {
        let shape = &pod.shape;
        let looks_around = !shape.spread.is_empty() || !shape.affinity.is_empty() || !shape.anti_affinity.is_empty();
        let counts = |node: &Node| looks_around || has_anti_affine(node);
        let interner = &*cluster.interner;
        let sites: SiteVec<Site<'a>> = cluster.nodes.iter().map(|node| Site::Node(node)).collect();
        let required = pod.shape.spread.iter().filter(|constraint| constraint.required);
        let possible = |key| Arc::new(sites.map(|site| site.possible(key, interner)));
        let affinity = (!shape.affinity.is_empty()).then(|| Affinity::new(cluster, pod, &pod.shape.affinity, possible));
        let mut filter = Self {
            pod,
            cluster,
            spread: required
                .map(|constraint| Spread::new(cluster, &sites, pod, constraint))
                .collect(),
            affinity,
            sites,
            repelled: BTreeSet::new(),
            repelling: BTreeSet::new(),
        };
        for (site, node) in filter.sites.ids().zip(&cluster.nodes).filter(|(_, node)| counts(node)) {
            for other in node
                .pods
                .iter()
                .filter(|other| other.uid != pod.uid && !other.phase.is_terminal())
            {
                for spread in filter
                    .spread
                    .iter_mut()
                    .filter(|s| other.deletion.is_none() && s.counts(other))
                {
                    spread.arrive(site);
                }
                if let Some(affinity) = filter.affinity.as_mut().filter(|affinity| affinity.counts(other)) {
                    affinity.arrive(site);
                }
                for term in pod
                    .shape
                    .anti_affinity
                    .iter()
                    .filter(|term| term_selects(cluster, term, other))
                {
                    let domain = filter.sites[site].domain(term.key, interner);
                    filter.repelled.extend(domain.map(|domain| (term.key, domain)));
                }
                for term in other
                    .shape
                    .anti_affinity
                    .iter()
                    .filter(|term| term_selects(cluster, term, pod))
                {
                    let domain = filter.sites[site].domain(term.key, interner);
                    filter.repelling.extend(domain.map(|domain| (term.key, domain)));
                }
            }
        }
        filter
    }

    /// Whether the pod may be bound to a node of the cluster; otherwise the reasons of the first filter that refuses it.
    pub fn node(&self, node: &Node) -> Result<(), Vec<FilterReason>> {
        self.by_taints(node)?;
        let shape = &self.pod.shape;
        let interner = &*self.cluster.interner;
        if !selects(shape, interner, |key| label(node, key, interner)) {
            return Err(vec![FilterReason::NodeAffinity]);
        }
        if !shape.host_ports.is_empty() {
            let others = node.pods.iter().filter(|other| other.uid != self.pod.uid);
            let mut held = others.flat_map(|other| &other.shape.host_ports);
            if held.any(|held| shape.host_ports.iter().any(|port| host_port::conflict(port, held))) {
                return Err(vec![FilterReason::Ports]);
            }
        }
        self.by_resources(node)?;
        self.by_volumes(node)?;
        self.by_topology(node)
    }

    fn by_taints(&self, node: &Node) -> Result<(), Vec<FilterReason>> {
        let cordon = node.taints.iter().filter(|taint| &*taint.key == UNSCHEDULABLE);
        let cordon: Vec<_> = cordon.cloned().collect();
        if taint::first_refusing(&cordon, &self.pod.shape.tolerations).is_some() {
            return Err(vec![FilterReason::Unschedulable]);
        }
        taint::first_refusing(&node.taints, &self.pod.shape.tolerations).map_or(Ok(()), |taint| {
            let (key, value) = (taint.key.to_string(), taint.value.to_string());
            Err(vec![FilterReason::Taint { key, value }])
        })
    }

    fn by_resources(&self, node: &Node) -> Result<(), Vec<FilterReason>> {
        let mut short: Vec<(u8, FilterReason)> = Vec::new();
        for (name, wanted) in self.pod.shape.requests.iter().filter(|(_, wanted)| *wanted > 0) {
            if wanted <= amounts::left_on(node, name) {
                continue;
            }
            let rank = match name {
                sym::PODS => 0,
                sym::CPU => 1,
                sym::MEMORY => 2,
                sym::EPHEMERAL_STORAGE => 3,
                _ => 4,
            };
            let text = self.cluster.interner.text(name);
            let reason = if rank == 0 {
                FilterReason::TooManyPods
            } else {
                FilterReason::Insufficient(text.to_owned())
            };
            short.push((rank, reason));
        }
        short.sort();
        if short.is_empty() {
            Ok(())
        } else {
            Err(short.into_iter().map(|(_, reason)| reason).collect())
        }
    }

    fn by_volumes(&self, node: &Node) -> Result<(), Vec<FilterReason>> {
        for (driver, limit) in &node.volume_limits {
            let of_driver = |pod: &'a Pod| pod.volumes.iter().filter(|v| v.driver.as_deref() == Some(&**driver));
            let mut claims: BTreeSet<&str> = of_driver(self.pod).map(|volume| &*volume.claim).collect();
            if claims.is_empty() {
                continue;
            }
            for other in &node.pods {
                let volumes = other.volumes.iter().filter(|v| v.driver.as_deref() == Some(&**driver));
                claims.extend(volumes.map(|volume| &*volume.claim));
            }
            if claims.len() > *limit as usize {
                return Err(vec![FilterReason::VolumeCount]);
            }
        }
        let interner = &*self.cluster.interner;
        let mut bound = self.pod.volumes.iter().filter(|volume| !volume.topology.is_empty());
        let reachable = bound.all(|volume| {
            let mut terms = volume.topology.iter();
            terms.any(|term| all_hold(term, interner, |key| label(node, key, interner)))
        });
        if reachable {
            Ok(())
        } else {
            Err(vec![FilterReason::VolumeNodeAffinity])
        }
    }

    fn by_topology(&self, node: &Node) -> Result<(), Vec<FilterReason>> {
        if self.spread.is_empty() && self.affinity.is_none() && self.repelled.is_empty() && self.repelling.is_empty() {
            return Ok(());
        }
        let position = self.cluster.position(&node.name);
        let Some(site) = position.and_then(|at| self.sites.id(at)) else {
            return Ok(());
        };
        for spread in &self.spread {
            match spread.check(site) {
                Ok(()) => {}
                Err(SpreadFault::MissingLabel) => return Err(vec![FilterReason::SpreadLabel]),
                Err(SpreadFault::Skew) => return Err(vec![FilterReason::Spread]),
            }
        }
        if self.affinity.as_ref().is_some_and(|affinity| !affinity.permits(site)) {
            return Err(vec![FilterReason::PodAffinity]);
        }
        let here = |places: &BTreeSet<(Sym, Domain<'_>)>| {
            let mut places = places.iter();
            places.any(|(key, domain)| Site::Node(node).domain(*key, &self.cluster.interner) == Some(*domain))
        };
        if here(&self.repelled) {
            return Err(vec![FilterReason::PodAntiAffinity]);
        }
        if here(&self.repelling) {
            return Err(vec![FilterReason::ExistingAntiAffinity]);
        }
        Ok(())
    }
}
