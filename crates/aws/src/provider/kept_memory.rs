//! The memory that nodes reported, as the annotation of their class keeps it over restarts.

use super::aws_cloud::AwsCloud;
use crate::annotations::{DISCOVERED_MEMORY, kept_memory};
use crate::discovered_memory::{DiscoveredMemory, images_key};
use kerf_api::EC2NodeClass;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The annotations that were read, by class, so that each text is read once.
#[derive(Debug, Default)]
pub(super) struct KeptMemory(Mutex<BTreeMap<String, String>>);

impl AwsCloud {
    /// Takes over what the annotation of a class keeps, unless it was taken over already. A text that cannot be read is logged once.
    pub(crate) fn restore_memory(&self, class: &EC2NodeClass) {
        let Some(text) = kept_memory(class).filter(|_| self.options.learn_memory) else {
            return;
        };
        // The lock is held until the memory is read, so that no task computes instance types without it.
        let mut read = self.kept_memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = class.name() else { return };
        if read.get(name).is_some_and(|known| known == text) {
            return;
        }
        let now = self.clock.now();
        match DiscoveredMemory::from_text(text, now) {
            Some(kept) => self.market.change_memory(|known| known.merge(&kept, now)),
            None => tracing::warn!(
                EC2NodeClass = name,
                "the annotation {DISCOVERED_MEMORY} cannot be read; what it kept is learned again"
            ),
        }
        read.insert(name.to_owned(), text.to_owned());
    }

    /// The text that the annotation of a class should have; `None` if what it has is good enough.
    pub(crate) fn memory_to_keep(&self, class: &EC2NodeClass) -> Option<String> {
        if !self.options.learn_memory {
            return None;
        }
        self.restore_memory(class);
        let now = self.clock.now();
        let stored = kept_memory(class).map(|text| DiscoveredMemory::from_text(text, now));
        let mut wanted = stored.clone().flatten().unwrap_or_default().without_expired(now);
        let images = images_key(&class.status.amis);
        let learned = self.market.memory_of_images(images);
        wanted.merge(&learned, now);
        let wanted = wanted.newest();
        let is_news = match &stored {
            Some(Some(stored)) => wanted.is_news_to(stored),
            Some(None) => true,
            None => wanted.is_news_to(&DiscoveredMemory::default()),
        };
        is_news.then(|| wanted.to_text())
    }

    /// Forgets the annotations of classes that are not among these.
    pub(crate) fn retain_kept_memory(&self, classes: &[EC2NodeClass]) {
        let mut read = self.kept_memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|name, _| classes.iter().any(|class| class.name() == Some(name)));
    }
}
