//! Which of the images found a class uses (AWS-119 to AWS-121).

use jiff::Timestamp;
use kerf_api::ec2_node_class::NodeClassAmi;
use kerf_api::labels::ARCH;
use kerf_api::{Operator, Requirement};
use std::cmp::Reverse;

/// An image as EC2 describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Id.
    pub id: String,
    /// Name.
    pub name: Option<String>,
    /// Architecture in EC2's names.
    pub architecture: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// From when on its owner advises against it.
    pub deprecated_from: Option<Timestamp>,
}

impl Image {
    /// The architecture in Kubernetes' names; `None` for one that no node can have (AWS-118).
    fn arch(&self) -> Option<&'static str> {
        match self.architecture.as_str() {
            "x86_64" => Some("amd64"),
            "arm64" => Some("arm64"),
            _ => None,
        }
    }

    /// Whether a node can run it.
    pub fn is_usable(&self) -> bool {
        self.arch().is_some()
    }
}

/// An image with what instance types it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The image.
    pub image: Image,
    /// What instance types it is for.
    pub requirements: Vec<Requirement>,
    /// Whether it is deprecated.
    pub deprecated: bool,
}

impl Selected {
    fn new(image: &Image, requirements: Vec<Requirement>, now: Timestamp) -> Self {
        Self {
            deprecated: image.deprecated_from.is_some_and(|from| from <= now),
            image: image.clone(),
            requirements,
        }
    }

    /// Whether this image wins over another one for the same instance types: not deprecated, then newer, then the greater name (AWS-120,
    /// AWS-496).
    fn is_better_than(&self, other: &Self) -> bool {
        let rank = |one: &Self| (Reverse(one.deprecated), one.image.created, one.image.name.clone());
        rank(self) > rank(other)
    }
}

/// The requirements of an image that no alias describes; `None` for an architecture that no node can have (AWS-118, AWS-119).
fn plain_requirements(image: &Image) -> Option<Vec<Requirement>> {
    Some(vec![Requirement::new(ARCH, Operator::In, [image.arch()?])])
}

/// The images a class uses, the preferred ones first: newest, then by id (AWS-121). `variants_of` gives the requirements of an image that an
/// alias found; an image without any is used for its architecture. Of several images for the same instance types one is kept.
pub fn select(images: &[Image], variants_of: impl Fn(&str) -> Vec<Vec<Requirement>>, now: Timestamp) -> Vec<Selected> {
    let mut kept: Vec<Selected> = Vec::new();
    for image in images {
        let Some(plain) = plain_requirements(image) else {
            continue;
        };
        let mut variants = variants_of(&image.id);
        if variants.is_empty() {
            variants.push(plain);
        }
        for mut requirements in variants {
            sort_for_status(&mut requirements);
            let candidate = Selected::new(image, requirements, now);
            match kept
                .iter_mut()
                .find(|known| known.requirements == candidate.requirements)
            {
                Some(known) if candidate.is_better_than(known) => *known = candidate,
                Some(_) => {}
                None => kept.push(candidate),
            }
        }
    }
    kept.sort_by(|a, b| {
        let newest_first = b.image.created.cmp(&a.image.created);
        newest_first.then_with(|| a.image.id.cmp(&b.image.id))
    });
    kept
}

/// Requirements in the order the status shows: by length of the key, then by key (AWS-067).
pub(crate) fn sort_for_status(requirements: &mut [Requirement]) {
    requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
}

/// The images as the status of a class lists them.
pub fn status_amis(selected: &[Selected]) -> Vec<NodeClassAmi> {
    selected
        .iter()
        .map(|one| NodeClassAmi {
            id: one.image.id.clone(),
            name: one.image.name.clone(),
            deprecated: one.deprecated,
            requirements: one.requirements.clone(),
        })
        .collect()
}
