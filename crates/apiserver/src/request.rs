//! The path and the query of a request, and the representation it accepts.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::error::ApiError;
use crate::json;
use crate::openapi::v2;
use crate::printing::IncludeObject;
use crate::schema::{FieldError, FieldValidation};

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/healthz`, `/livez`, `/readyz` and the checks under them.
    Health,
    Version,
    /// `/` lists the paths.
    Root,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources {
        group: String,
        version: String,
    },
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiIndex,
    /// `/openapi/v3/…`: `v1`'s group is empty.
    OpenApi {
        group: String,
        version: String,
    },
    Object(ObjectPath),
    Unknown,
}

/// The path of a collection, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Route {
    pub(crate) fn parse(path: &str) -> Self {
        let decoded: Vec<String> = path
            .split('/')
            .filter(|p| !p.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [] => Self::Root,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::Resources {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["apis", group, version] => Self::Resources {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiIndex,
            ["openapi", "v3", "api", version] => Self::OpenApi {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["openapi", "v3", "apis", group, version] => Self::OpenApi {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["api", version, rest @ ..] => Self::object("", version, rest),
            ["apis", group, version, rest @ ..] => Self::object(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn object(group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, rest) = match rest {
            // Subresources of a namespace itself.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (Some((*namespace).to_owned()), inside),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, sub] => (plural, Some(name), Some((*sub).to_owned())),
            [plural, name, sub @ ..] => (plural, Some(name), Some(sub.join("/"))),
            [] => return Self::Unknown,
        };
        Self::Object(ObjectPath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            plural: (*plural).to_owned(),
            name: name.map(|n| (*n).to_owned()),
            subresource,
        })
    }
}

/// The decoded query of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The value of `key`, when given and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
            .filter(|v| !v.is_empty())
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some("true" | "1" | "True" | "t" | "T") => Ok(Some(true)),
            Some("false" | "0" | "False" | "f" | "F") => Ok(Some(false)),
            Some(other) => Err(ApiError::bad_request(format!(
                "query parameter {key} is no boolean: {other:?}"
            ))),
        }
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, ApiError> {
        let bad = |v: &str| ApiError::bad_request(format!("strconv.ParseInt: parsing {v:?}: invalid syntax"));
        self.get(key).map(|v| v.parse().map_err(|_| bad(v))).transpose()
    }

    /// The resourceVersion of a list, get or watch; an empty one counts as absent.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        let invalid = |text: &str| {
            let cause = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            let message = format!("invalid resource version: resourceVersion: Invalid value: {text:?}: {cause}");
            ApiError::bad_request(message)
        };
        self.get("resourceVersion")
            .map(|v| v.parse().map_err(|_| invalid(v)))
            .transpose()
    }

    /// Whether nothing is to be stored. `options` is the kind of options this query is.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let cause = FieldError::not_supported("dryRun", &serde_json::json!([other]), &["All".into()]);
                Err(ApiError::invalid_option(options, &cause))
            }
        }
    }
}

/// The form of objects in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
    Table,
    /// The aggregated discovery document.
    AggregatedDiscovery,
    /// An OpenAPI v2 document in protobuf, the one kind of protobuf answer.
    OpenApiV2Protobuf,
}

/// The part of each object in the rows of a Table.
pub(crate) fn include_object(query: &Query) -> Result<IncludeObject, ApiError> {
    match query.get("includeObject") {
        None | Some("Metadata") => Ok(IncludeObject::Metadata),
        Some("Object") => Ok(IncludeObject::Object),
        Some("None") => Ok(IncludeObject::None),
        Some(other) => Err(ApiError::bad_request(format!(
            "unrecognized includeObject value: {other:?}"
        ))),
    }
}

/// Reads an Accept header. JSON is the one encoding of objects: a client that prefers protobuf gets its second choice.
pub(crate) fn accepted_format(accept: &str) -> Result<Format, ApiError> {
    let mut seen_any = false;
    for range in accept.split(',').map(str::trim).filter(|r| !r.is_empty()) {
        seen_any = true;
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let mut form = "";
        let mut version = "";
        for (key, value) in parts.filter_map(|p| p.split_once('=')) {
            match key {
                "as" => form = value,
                "v" => version = value,
                _ => {}
            }
        }
        match (media_type, form, version) {
            ("application/json", "Table", "v1") => return Ok(Format::Table),
            ("application/json", "PartialObjectMetadata" | "PartialObjectMetadataList", "v1") => {
                return Ok(Format::Metadata);
            }
            ("application/json", "APIGroupDiscoveryList", "v2") => return Ok(Format::AggregatedDiscovery),
            ("application/json" | "*/*" | "application/*", "", _) => return Ok(Format::Full),
            // A protobuf answer is never given; JSON in its place is understood by every client that asks for it.
            ("application/vnd.kubernetes.protobuf", "", _) => return Ok(Format::Full),
            _ if v2::is_protobuf(media_type) => return Ok(Format::OpenApiV2Protobuf),
            _ => {}
        }
    }
    if seen_any && !accept.contains("application/") && !accept.contains("text/") && !accept.contains('*') {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        return Err(ApiError::new(406, "NotAcceptable", message).with_empty_details());
    }
    Ok(Format::Full)
}

/// How unknown fields of a write are treated.
pub(crate) fn field_validation(query: &Query) -> Result<FieldValidation, ApiError> {
    match query.get("fieldValidation") {
        None | Some("Warn") => Ok(FieldValidation::Warn),
        Some("Ignore") => Ok(FieldValidation::Ignore),
        Some("Strict") => Ok(FieldValidation::Strict),
        Some(other) => {
            let supported = "supported values: \"Ignore\", \"Strict\", \"Warn\"";
            let message = format!("fieldValidation: Unsupported value: {other:?}: {supported}");
            Err(ApiError::new(422, "Invalid", message))
        }
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a DELETE or eviction, from its body or its query.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_s: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(crate) fn parse(query: &Query, body: &Value) -> Result<Self, ApiError> {
        let query_propagation = query.get("propagationPolicy");
        let policy = json::text(body, &["propagationPolicy"]).or(query_propagation);
        let orphan = json::at(body, &["orphanDependents"])
            .as_bool()
            .or(query.flag("orphanDependents")?);
        let propagation = match (policy, orphan) {
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (None, None) => None,
            (Some(other), _) => {
                let supported = "supported values: \"Background\", \"Foreground\", \"Orphan\"";
                let message = format!("propagationPolicy: Unsupported value: {other:?}: {supported}");
                return Err(ApiError::new(422, "Invalid", message));
            }
        };
        let grace_s = match json::int(body, &["gracePeriodSeconds"]) {
            Some(seconds) => Some(seconds),
            None => query.number("gracePeriodSeconds")?,
        };
        let text = |path: &[&str]| json::text(body, path).map(str::to_owned);
        Ok(Self {
            grace_s,
            propagation,
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            dry_run: query.dry_run("DeleteOptions")? || !json::items(body, &["dryRun"]).is_empty(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str) -> ObjectPath {
        match Route::parse(path) {
            Route::Object(object) => object,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn paths() {
        assert_eq!(Route::parse("/"), Route::Root);
        assert_eq!(Route::parse("/readyz/ping"), Route::Health);
        assert_eq!(Route::parse("/apis/apps"), Route::Group("apps".to_owned()));
        assert_eq!(Route::parse("/openapi/v2"), Route::OpenApiV2);
        assert_eq!(Route::parse("/openapi/v1"), Route::Unknown);
        let pods = object("/api/v1/pods");
        assert_eq!((pods.plural.as_str(), pods.namespace), ("pods", None));
        let eviction = object("/api/v1/namespaces/ns/pods/p%2D1/eviction");
        assert_eq!(eviction.namespace.as_deref(), Some("ns"));
        assert_eq!(eviction.name.as_deref(), Some("p-1"));
        assert_eq!(eviction.subresource.as_deref(), Some("eviction"));
        let namespace = object("/api/v1/namespaces/ns");
        assert_eq!(
            (namespace.plural.as_str(), namespace.name.as_deref()),
            ("namespaces", Some("ns"))
        );
        let status = object("/api/v1/namespaces/ns/status");
        assert_eq!(
            (status.plural.as_str(), status.subresource.as_deref()),
            ("namespaces", Some("status"))
        );
    }

    #[test]
    fn accept_headers() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accepted_format(table).unwrap(), Format::Table);
        let kube = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(accepted_format(kube).unwrap(), Format::Metadata);
        assert_eq!(
            accepted_format("application/vnd.kubernetes.protobuf,application/json").unwrap(),
            Format::Full
        );
        assert_eq!(accepted_format("").unwrap(), Format::Full);
        assert_eq!(accepted_format("image/png").unwrap_err().code, 406);
    }

    #[test]
    fn queries() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&limit=5&watch=1&x=a+b");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("x"), Some("a b"));
        assert_eq!(query.number::<u64>("limit").unwrap(), Some(5));
        assert_eq!(query.flag("watch").unwrap(), Some(true));
        assert!(Query::parse("limit=x").number::<u64>("limit").is_err());
    }
}
