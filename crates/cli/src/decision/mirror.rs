//! From objects and settings to a mirror, as a running controller would have it.

use super::pool_catalogues::PoolCatalogues;
use super::{Cluster, Settings, nominations};
use crate::manifests::InputError;
use kerf_cloud::OverlayPool;
use kerf_controllers::conventions_of;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_state::{Conventions, Mirror};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A mirror of the cluster. Overlays that are wrong are added to `errors`.
pub(super) fn mirror(
    cluster: Cluster,
    settings: &Settings,
    interner: &Arc<Interner>,
    errors: &mut Vec<InputError>,
) -> Mirror {
    let Cluster {
        mut objects,
        mut overlays,
        ec2_classes,
        buffers,
        nominations,
        repair_policies: _,
        unread: _,
        left_out: _,
    } = cluster;
    if !settings.overlays {
        overlays.clear();
    }
    let catalogues = PoolCatalogues::new(settings, &ec2_classes, interner);
    let vocabulary = catalogues.vocabulary();
    let rules = &vocabulary.labels;
    let pools: Vec<OverlayPool> = objects
        .pools
        .iter()
        .filter_map(|pool| OverlayPool::new(pool, catalogues.of(pool), rules, interner))
        .collect();
    let by_pool: BTreeMap<String, Arc<Catalogue>> = objects
        .pools
        .iter()
        .filter_map(|pool| Some((pool.metadata.name.clone()?, catalogues.of(pool))))
        .collect();
    let evaluation = kerf_cloud::evaluate(&overlays, &pools, rules, interner);
    for (name, status) in &evaluation.statuses {
        if status.reason().is_some() {
            let error = InputError::new("", status.message().to_owned()).object(format!("NodeOverlay {name}"));
            errors.push(error.remedy("it is applied nowhere; correct it or give it another weight"));
        }
    }
    for pool in &pools {
        let plain = by_pool.get(&*pool.name).unwrap_or(&settings.catalogue);
        let overlaid = evaluation.pools.get(&pool.name).map(|overlay| overlay.apply(plain));
        let catalogue = overlaid.unwrap_or_else(|| Arc::clone(plain));
        objects.catalogues.insert(pool.name.to_string(), Ok(catalogue));
    }
    let (claims, catalogues) = (objects.claims.clone(), objects.catalogues.clone());
    let conventions = Conventions {
        refuse_resource_claims: settings.refuse_resource_claims,
        startup_taints: settings.startup_taints.clone(),
        default_constraints: Arc::clone(&settings.default_constraints),
        ..conventions_of(&vocabulary)
    };
    let mut mirror = objects.into_mirror(Arc::clone(interner), conventions);
    if settings.capacity_buffers {
        buffers.keep(&mut mirror, settings.now, errors);
    }
    nominations::promise(&mut mirror, &nominations, &claims, |pool| {
        catalogues.get(pool).and_then(|types| types.clone().ok())
    });
    mirror
}
