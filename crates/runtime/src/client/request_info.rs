//! What a request to the Kubernetes API is about, read from its method and path.

use http::Method;

/// The parts of an API request that its metrics are labelled with (OPS-178).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// CREATE, GET, LIST, UPDATE, PATCH, DELETE or the method itself.
    pub verb: &'static str,
    /// The API group, "" for core.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The resource segment, plural.
    pub resource: String,
    /// Whether one object is named.
    pub named: bool,
    /// The subresource, "" when there is none.
    pub subresource: String,
}

impl RequestInfo {
    /// Reads a request; `None` for paths that are not about a resource (discovery, health, version).
    pub fn parse(method: &Method, path: &str) -> Option<Self> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let (group, version) = match segments.next()? {
            "api" => ("", segments.next()?),
            "apis" => (segments.next()?, segments.next()?),
            _ => return None,
        };
        let rest: Vec<&str> = segments.collect();
        let (resource, name, subresource) = match rest.as_slice() {
            // A namespace's own subresources; anything else in that place is a resource inside the namespace.
            ["namespaces", name, sub @ ("status" | "finalize")] => ("namespaces", Some(*name), *sub),
            ["namespaces", _, resource, tail @ ..] => split(resource, tail),
            [resource, tail @ ..] => split(resource, tail),
            [] => return None,
        };
        let named = name.is_some();
        let verb = match (method, named) {
            (&Method::POST, _) | (&Method::PUT, false) => "CREATE",
            (&Method::PUT, true) => "UPDATE",
            (&Method::GET | &Method::HEAD, true) => "GET",
            (&Method::GET | &Method::HEAD, false) => "LIST",
            (&Method::PATCH, _) => "PATCH",
            (&Method::DELETE, _) => "DELETE",
            _ => "OTHER",
        };
        Some(Self {
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            named,
            subresource: subresource.to_owned(),
        })
    }
}

fn split<'a>(resource: &'a str, tail: &[&'a str]) -> (&'a str, Option<&'a str>, &'a str) {
    (resource, tail.first().copied(), tail.get(1).copied().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        // OPS-178
        let cases = [
            (Method::GET, "/api/v1/pods", Some(("LIST", "", "v1", "pods", ""))),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p",
                Some(("GET", "", "v1", "pods", "")),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/eviction",
                Some(("CREATE", "", "v1", "pods", "eviction")),
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/status",
                Some(("UPDATE", "", "v1", "namespaces", "status")),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                Some(("GET", "", "v1", "namespaces", "")),
            ),
            (
                Method::PUT,
                "/apis/karpenter.sh/v1/nodepools",
                Some(("CREATE", "karpenter.sh", "v1", "nodepools", "")),
            ),
            (
                Method::PATCH,
                "/apis/karpenter.sh/v1/nodeclaims/c/status",
                Some(("PATCH", "karpenter.sh", "v1", "nodeclaims", "status")),
            ),
            (Method::GET, "/apis/apps/v1", None),
            (Method::GET, "/version", None),
            (Method::GET, "/", None),
        ];
        for (method, path, expected) in cases {
            let info = RequestInfo::parse(&method, path);
            let got = info.as_ref().map(|i| {
                (
                    i.verb,
                    i.group.as_str(),
                    i.version.as_str(),
                    i.resource.as_str(),
                    i.subresource.as_str(),
                )
            });
            assert_eq!(got, expected, "{method} {path}");
        }
    }
}
