//! From objects and settings to a mirror, as a running controller would have it.

use super::{Cluster, Settings, nominations};
use crate::manifests::InputError;
use kerf_cloud::OverlayPool;
use kerf_controllers::conventions_of;
use kerf_model::intern::Interner;
use kerf_state::Mirror;
use std::sync::Arc;

/// A mirror of the cluster. Overlays that are wrong are added to `errors`.
pub(super) fn mirror(
    cluster: Cluster,
    settings: &Settings,
    interner: &Arc<Interner>,
    errors: &mut Vec<InputError>,
) -> Mirror {
    let Cluster {
        mut world,
        mut overlays,
        nominations,
        repair_policies: _,
        unread: _,
    } = cluster;
    if !settings.overlays {
        overlays.clear();
    }
    let rules = &settings.vocabulary.labels;
    let pools: Vec<OverlayPool> = world
        .pools
        .iter()
        .filter_map(|pool| OverlayPool::new(pool, Arc::clone(&settings.catalogue), rules, interner))
        .collect();
    let evaluation = kerf_cloud::evaluate(&overlays, &pools, rules, interner);
    for (name, status) in &evaluation.statuses {
        if status.reason().is_some() {
            let error = InputError::new("", status.message().to_owned()).object(format!("NodeOverlay {name}"));
            errors.push(error.remedy("it is applied nowhere; correct it or give it another weight"));
        }
    }
    for pool in &pools {
        let overlaid = evaluation
            .pools
            .get(&pool.name)
            .map(|overlay| overlay.apply(&settings.catalogue));
        let catalogue = overlaid.unwrap_or_else(|| Arc::clone(&settings.catalogue));
        world.catalogues.insert(pool.name.to_string(), Ok(catalogue));
    }
    let (claims, catalogues) = (world.claims.clone(), world.catalogues.clone());
    let mut mirror = world.into_mirror(Arc::clone(interner), conventions_of(&settings.vocabulary));
    nominations::promise(&mut mirror, &nominations, &claims, |pool| {
        catalogues.get(pool).and_then(|types| types.clone().ok())
    });
    mirror
}
