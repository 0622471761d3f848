//! Images of a class (AWS-109 to AWS-125).

use super::{ClassKey, ParameterStore, class_key};
use crate::ami::{AliasError, Image, Selected, alias_parameters, check_alias_support, select, sort_for_status};
use crate::cache::Cache;
use crate::errors::ApiError;
use crate::node_class::ConditionType;
use crate::selector::{Filter, ImageQuery, image_queries, is_image_id};
use crate::services::{CallResult, Ec2, Ssm};
use jiff::Timestamp;
use kerf_api::ec2_node_class::AmiAlias;
use kerf_api::{Condition, EC2NodeClass, Requirement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Why a class has no images.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The alias has no images for this version of Kubernetes, and will not get any.
    #[error(transparent)]
    Unsupported(#[from] AliasError),
    /// No parameter of the alias could be read. SSM's own error is in the log: a missing permission looks the same (AWS-495).
    #[error("failed to discover any AMIs for alias {0:?}")]
    NothingForAlias(String),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] ApiError),
}

/// The requirements of images that an alias found, by id.
type Variants = BTreeMap<String, Vec<Vec<Requirement>>>;

/// Images of classes.
pub struct ImageLookup {
    ec2: Arc<dyn Ec2>,
    parameters: ParameterStore,
    /// Images that are used, and those that no node can run.
    found: Cache<ClassKey, (Vec<Selected>, Vec<Image>)>,
}

impl ImageLookup {
    /// A look-up whose answers stay valid for `interval`.
    pub fn new(ec2: Arc<dyn Ec2>, ssm: Arc<dyn Ssm>, interval: Duration) -> Self {
        Self {
            ec2,
            parameters: ParameterStore::new(ssm),
            found: Cache::new(interval),
        }
    }

    /// The images that the class uses, the preferred ones first. `version` is the cluster's, such as `1.33`.
    pub async fn list(&self, class: &EC2NodeClass, version: &str, now: Timestamp) -> Result<Vec<Selected>, ImageError> {
        let (queries, variants) = match class.spec.alias() {
            Some(alias) => self.alias_queries(&alias, class, version).await?,
            None => (self.term_queries(class).await?, Variants::new()),
        };
        let key = class_key(class);
        if let Some((known, _)) = self.found.get(&key) {
            return Ok(known);
        }
        let images = self.describe(&queries).await?;
        let of = |id: &str| variants.get(id).cloned().unwrap_or_default();
        let selected = select(&images, of, now);
        let unusable = images.into_iter().filter(|image| !image.is_usable()).collect();
        self.found.insert(key, (selected.clone(), unusable));
        Ok(selected)
    }

    /// The images that the last [`list`](Self::list) left out because no node can run them.
    pub fn unusable(&self, class: &EC2NodeClass) -> Vec<Image> {
        let found = self.found.get(&class_key(class));
        found.map(|(_, unusable)| unusable).unwrap_or_default()
    }

    /// Images of several queries, each once.
    async fn describe(&self, queries: &[ImageQuery]) -> CallResult<Vec<Image>> {
        let (mut seen, mut images) = (BTreeSet::new(), Vec::new());
        for query in queries {
            for image in self.ec2.images(query).await? {
                if seen.insert(image.id.clone()) {
                    images.push(image);
                }
            }
        }
        Ok(images)
    }

    async fn alias_queries(
        &self,
        alias: &AmiAlias,
        class: &EC2NodeClass,
        version: &str,
    ) -> Result<(Vec<ImageQuery>, Variants), ImageError> {
        check_alias_support(alias.family, version)?;
        let mut variants = Variants::new();
        for parameter in alias_parameters(alias, version) {
            match self.parameters.of_alias(&parameter.name, parameter.is_mutable).await {
                Ok(id) => variants.entry(id).or_default().extend(parameter.variants),
                Err(error) if error.is_not_found() => {
                    tracing::debug!(parameter = parameter.name, "an image parameter does not exist");
                }
                Err(_) => {
                    for (id, requirements) in images_in_status(class, parameter.variants) {
                        variants.entry(id).or_default().push(requirements);
                    }
                }
            }
        }
        if variants.is_empty() {
            let family = alias.family.as_str().to_lowercase();
            return Err(ImageError::NothingForAlias(format!("{family}@{}", alias.version)));
        }
        Ok((vec![by_ids(variants.keys())], variants))
    }

    async fn term_queries(&self, class: &EC2NodeClass) -> Result<Vec<ImageQuery>, ImageError> {
        let terms = &class.spec.ami_selector_terms;
        let mut images = BTreeMap::new();
        for name in terms.iter().filter_map(|term| term.ssm_parameter.as_ref()) {
            match self.parameters.of_user(name).await {
                Ok(id) if is_image_id(&id) => {
                    images.insert(name.clone(), id);
                }
                Ok(_) => tracing::error!(parameter = name, "the SSM parameter holds no image id"),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(image_queries(terms, |name| images.get(name).cloned()))
    }

    /// Forgets the parameters that hold a deprecated image although they follow new ones, so that they are read again (AWS-125).
    pub async fn forget_deprecated(&self, now: Timestamp) -> CallResult<()> {
        let ids = self.parameters.mutable_images();
        if ids.is_empty() {
            return Ok(());
        }
        let images = self.ec2.images(&by_ids(&ids)).await?;
        let is_deprecated = |image: &Image| image.deprecated_from.is_some_and(|from| from <= now);
        let deprecated = images.into_iter().filter(is_deprecated).map(|image| image.id);
        self.parameters.forget(&deprecated.collect::<Vec<_>>());
        Ok(())
    }
}

/// The images that the status of a class has for these requirements, if they are those of its spec as it is. A new leader knows no other value
/// of a parameter that it cannot read.
fn images_in_status(
    class: &EC2NodeClass,
    variants: Vec<Vec<Requirement>>,
) -> impl Iterator<Item = (String, Vec<Requirement>)> + use<'_> {
    let is_current = |condition: &Condition| {
        condition.type_ == ConditionType::Amis.as_str()
            && condition.is_true()
            && condition.observed_generation == class.metadata.generation
    };
    let is_current = class.status.conditions.iter().any(is_current);
    variants
        .into_iter()
        .filter(move |_| is_current)
        .filter_map(|mut wanted| {
            sort_for_status(&mut wanted);
            let known = class.status.amis.iter().find(|ami| ami.requirements == wanted)?;
            Some((known.id.clone(), wanted))
        })
}

fn by_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> ImageQuery {
    ImageQuery {
        owners: Vec::new(),
        filters: vec![
            Filter::new("state", ["available"]),
            Filter::new("image-id", ids.into_iter().collect::<BTreeSet<_>>()),
        ],
    }
}
