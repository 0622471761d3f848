//! The placement group of a class (AWS-279).

use crate::cache::Cache;
use crate::errors::ApiError;
use crate::intervals::{LONG_LIVED, SHORT_LIVED};
use crate::placement_group::{PlacementGroup, query};
use crate::services::{CallResult, Ec2};
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::PlacementGroupSelector;
use std::sync::Arc;

/// A selector as a key: id and name.
type Key = (Option<String>, Option<String>);

fn key(selector: &PlacementGroupSelector) -> Key {
    (selector.id.clone(), selector.name.clone())
}

/// Placement groups of classes.
pub struct PlacementGroupLookup {
    ec2: Arc<dyn Ec2>,
    /// Answers that need not be asked for again; `None` for a group that does not exist.
    fresh: Cache<Key, Option<PlacementGroup>>,
    /// Look-ups that failed. Every pool and claim of the class would ask again at once.
    failed: Cache<Key, ApiError>,
    /// Groups that were found, for decisions between two answers.
    found: Cache<Key, PlacementGroup>,
}

/// What is known of the placement group of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownGroup {
    /// The class names none, or one that does not exist.
    None,
    /// This one.
    Group(PlacementGroup),
    /// The class names one that was not looked up yet, or could not be.
    Unknown,
}

impl PlacementGroupLookup {
    /// A look-up that calls EC2.
    pub const fn new(ec2: Arc<dyn Ec2>) -> Self {
        Self {
            ec2,
            fresh: Cache::new(SHORT_LIVED),
            failed: Cache::new(SHORT_LIVED),
            found: Cache::new(LONG_LIVED),
        }
    }

    /// The group that the class names; `None` without selector, or if there is no such group. A successful answer without a group also ends
    /// what was known before. After an error what was known stays, and the error is the answer for a minute.
    pub async fn get(&self, class: &EC2NodeClass) -> CallResult<Option<PlacementGroup>> {
        let Some(selector) = &class.spec.placement_group_selector else {
            return Ok(None);
        };
        let key = key(selector);
        if let Some(known) = self.fresh.get(&key) {
            return Ok(known);
        }
        if let Some(error) = self.failed.get(&key) {
            return Err(error);
        }
        let group = match self.ec2.placement_groups(&query(selector)).await {
            Ok(found) => found.into_iter().next(),
            Err(error) => {
                self.failed.insert(key, error.clone());
                return Err(error);
            }
        };
        match &group {
            Some(group) => self.found.insert(key.clone(), group.clone()),
            None => self.found.remove(&key),
        }
        self.fresh.insert(key, group.clone());
        Ok(group)
    }

    /// What is known without a call.
    pub fn known(&self, class: &EC2NodeClass) -> KnownGroup {
        let Some(selector) = &class.spec.placement_group_selector else {
            return KnownGroup::None;
        };
        let key = key(selector);
        match (self.found.get(&key), self.fresh.get(&key)) {
            (Some(group), _) => KnownGroup::Group(group),
            (None, Some(None)) => KnownGroup::None,
            (None, _) => KnownGroup::Unknown,
        }
    }

    /// The group for a decision: what a call gives, else what was known before it failed. The error is that of a class whose group was never
    /// found.
    pub async fn resolve(&self, class: &EC2NodeClass) -> Result<Option<PlacementGroup>, ApiError> {
        match (self.get(class).await, self.known(class)) {
            (Ok(group), _) => Ok(group),
            (Err(_), KnownGroup::Group(group)) => Ok(Some(group)),
            (Err(error), _) => Err(error),
        }
    }
}
