//! GET of a collection: consistent pages, versions and selectors.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;
use crate::request::Query;
use crate::schema::FieldError;
use crate::state::State;
use crate::storage::{FieldSelector, Filter, LabelSelector, Page, Stored};

/// A parsed list request: filter, version and page.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListRequest {
    pub(crate) filter: Filter,
    limit: usize,
    continue_token: Option<String>,
    version: Option<u64>,
    exact: bool,
}

/// The selectors of a list, watch or collection delete.
pub(crate) fn parse_filter(
    state: &State,
    resource: &Resource,
    namespace: Option<&str>,
    query: &Query,
) -> Result<Filter, ApiError> {
    let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).map_err(ApiError::bad_request)?;
    let selector = query.get("fieldSelector").unwrap_or_default();
    let fields = &state.table(resource.table).fields;
    let selector = if resource.is_new_event_view() {
        selector.replace("regarding.", "involvedObject.")
    } else {
        selector.to_owned()
    };
    let fields = FieldSelector::parse(&selector, fields).map_err(|why| {
        // The real server has another error for kinds without fields of their own.
        if let Some(field) = why
            .strip_prefix("field label not supported: ")
            .filter(|_| fields.is_empty())
        {
            let known = "only \"metadata.name\", \"metadata.namespace\"";
            return ApiError::bad_request(format!("{field:?} is not a known field selector: {known}"));
        }
        let gvr = format!("{}, Resource={}", resource.api_version(), resource.plural);
        ApiError::bad_request(format!(
            "Unable to find {gvr:?} that match label selector {:?}, field selector {selector:?}: {why}",
            query.get("labelSelector").unwrap_or_default()
        ))
    })?;
    Ok(Filter {
        namespace: namespace.map(Arc::from),
        name: None,
        labels,
        fields,
    })
}

impl ListRequest {
    pub(crate) fn parse(filter: Filter, query: &Query) -> Result<Self, ApiError> {
        let version = query.resource_version()?;
        let limit = query.number("limit")?.unwrap_or(0);
        let continue_token = query.get("continue").map(str::to_owned);
        let exact = match (query.get("resourceVersionMatch"), version) {
            (None, _) => false,
            (Some(_), None) => {
                return Err(ApiError::forbidden_version_match(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            (Some(_), _) if continue_token.is_some() => {
                return Err(ApiError::forbidden_version_match(
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            (Some("NotOlderThan"), _) => false,
            (Some("Exact"), Some(0)) => {
                return Err(ApiError::forbidden_version_match(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            (Some("Exact"), Some(_)) => true,
            (Some(other), Some(_)) => {
                let supported = ["Exact".into(), "NotOlderThan".into()];
                let cause = FieldError::not_supported("resourceVersionMatch", &other.into(), &supported);
                return Err(ApiError::invalid_option("ListOptions", &cause));
            }
        };
        // Version 0 means any version; the real server then ignores the limit.
        let limit = if version == Some(0) { 0 } else { limit };
        Ok(Self {
            filter,
            limit,
            continue_token,
            version,
            exact,
        })
    }
}

impl State {
    /// One object, not older than the resourceVersion of the query.
    pub(crate) fn get_object(
        &self,
        resource: &Resource,
        key: &str,
        name: &str,
        query: &Query,
    ) -> Result<Arc<Stored>, ApiError> {
        if let Some(asked) = query.resource_version()?
            && asked > self.version
        {
            return Err(ApiError::version_from_the_future(asked, self.version));
        }
        self.table(resource.table)
            .get(key)
            .cloned()
            .ok_or_else(|| ApiError::not_found(resource, name))
    }

    /// The objects a list request asks for.
    pub(crate) fn list(&self, resource: &Resource, request: &ListRequest) -> Result<Page, ApiError> {
        let namespace = request.filter.namespace.as_deref();
        let (version, after) = match &request.continue_token {
            Some(token) => {
                let (version, after) = decode_token(token)?;
                (version, Some(after))
            }
            None => (None, None),
        };
        let as_of = match (version, request.version) {
            (Some(version), _) => version,
            (None, Some(asked)) if asked > self.version => {
                return Err(ApiError::version_from_the_future(asked, self.version));
            }
            (None, Some(asked)) if request.exact => asked,
            _ => self.version,
        };
        let table = self.table(resource.table);
        let Some(objects) = table.snapshot(namespace, as_of) else {
            return Err(expired(after.as_deref(), as_of));
        };
        let mut matching = objects
            .into_iter()
            .filter(|o| after.as_deref().is_none_or(|a| *o.key > *a) && request.filter.matches(o));
        if request.limit == 0 {
            return Ok(Page {
                version: as_of,
                continue_token: None,
                remaining: None,
                items: matching.collect(),
            });
        }
        let items: Vec<Arc<Stored>> = matching.by_ref().take(request.limit).collect();
        let rest = matching.count();
        let continue_token = items
            .last()
            .filter(|_| rest > 0)
            .map(|last| encode_token(Some(as_of), &last.key));
        // With selectors the real server does not know how many are left.
        let remaining = (rest > 0 && !request.filter.is_selective()).then_some(rest);
        Ok(Page {
            version: as_of,
            continue_token,
            remaining,
            items,
        })
    }
}

fn expired(after: Option<&str>, version: u64) -> ApiError {
    let Some(after) = after else {
        return ApiError::expired(format!(
            "The resourceVersion for the provided list is too old: {version}"
        ));
    };
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    error.continue_token = Some(encode_token(None, after));
    error
}

/// A continue token. Without a version the next page comes from the newest state.
fn encode_token(version: Option<u64>, last: &str) -> String {
    let version = version.map_or(Value::from(-1), Value::from);
    let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": last});
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode_token(token: &str) -> Result<(Option<u64>, String), ApiError> {
    let invalid = || ApiError::bad_request("continue key is not valid: it must be one a list returned");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|_| invalid())?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    let start = json::text(&token, &["start"]).ok_or_else(invalid)?.to_owned();
    Ok((json::at(&token, &["rv"]).as_u64(), start))
}
