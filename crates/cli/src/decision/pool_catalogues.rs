//! The instance types of each pool: those of its EC2NodeClass, or those of the command line.

use super::Settings;
use crate::messages::say;
use kerf_api::ec2_node_class::KIND;
use kerf_api::{EC2NodeClass, NodePool};
use kerf_aws::labels;
use kerf_cloud::Vocabulary;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Catalogues by EC2NodeClass.
pub(super) struct PoolCatalogues<'a> {
    settings: &'a Settings,
    by_class: BTreeMap<String, Arc<Catalogue>>,
}

impl<'a> PoolCatalogues<'a> {
    /// The catalogues of these classes; none if the command line names instance types.
    pub(super) fn new(settings: &'a Settings, classes: &[EC2NodeClass], interner: &Interner) -> Self {
        let offline = settings.ec2.as_ref();
        let by_class = offline.into_iter().flat_map(|offline| {
            classes.iter().filter_map(|class| {
                if let Some((_, message)) = kerf_aws::offline::kubelet_problem(class, offline) {
                    say!(
                        "note: EC2NodeClass/{} is not ready, nothing is launched for it: {message}",
                        class.shown_name()
                    );
                }
                for guess in kerf_aws::offline::guesses(class, offline, settings.now) {
                    say!("note: EC2NodeClass/{}: {guess}", class.shown_name());
                }
                let catalogue = kerf_aws::offline::offline_catalogue(class, offline, settings.now, interner);
                Some((class.name()?.to_owned(), catalogue))
            })
        });
        Self {
            settings,
            by_class: by_class.collect(),
        }
    }

    /// The instance types of a pool.
    pub(super) fn of(&self, pool: &NodePool) -> Arc<Catalogue> {
        let class = &pool.spec.template.spec.node_class_ref;
        let own = self.by_class.get(&class.name).filter(|_| class.kind == KIND);
        Arc::clone(own.unwrap_or(&self.settings.catalogue))
    }

    /// The labels that scheduling knows: with EC2NodeClasses also those of the AWS provider.
    pub(super) fn vocabulary(&self) -> Vocabulary {
        let mut vocabulary = self.settings.vocabulary.clone();
        if self.by_class.is_empty() {
            return vocabulary;
        }
        vocabulary.labels = vocabulary
            .labels
            .with_well_known(labels::WELL_KNOWN)
            .with_normalized(labels::EBS_CSI_ZONE, kerf_api::labels::ZONE);
        let id = labels::RESERVATION_ID.to_owned();
        vocabulary.reservation_id_label.get_or_insert(id);
        vocabulary
            .reserved_only_labels
            .extend(labels::RESERVATION.map(str::to_owned));
        vocabulary
    }
}
