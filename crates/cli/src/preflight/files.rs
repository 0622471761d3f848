//! Facts from files.

use super::facts::{Facts, is_controller, title};
use crate::manifests::{InputError, raw_documents, read_inputs};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io;
use std::path::PathBuf;

/// Adds what the files contain; the errors are of files and objects that cannot be read.
pub(super) fn read(paths: &[PathBuf], facts: &mut Facts) -> Vec<InputError> {
    let (sources, mut errors, _) = read_inputs(paths, &mut io::stdin().lock());
    let (documents, more) = raw_documents(&sources);
    errors.extend(more);
    for document in documents {
        if let Err(error) = add(facts, document) {
            errors.push(error);
        }
    }
    errors
}

/// Adds one object; kinds that no check reads are ignored.
pub(super) fn add(facts: &mut Facts, object: Value) -> Result<(), InputError> {
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    match kind.as_str() {
        "NodePool" => facts.pools.push(decode(object, &kind)?),
        "NodeClaim" => facts.claims.push(decode(object, &kind)?),
        "EC2NodeClass" => facts.classes.push(decode(object, &kind)?),
        "CustomResourceDefinition" => facts.definitions.get_or_insert_default().push(object),
        "Deployment" => {
            let deployment = decode(object, &kind)?;
            if is_controller(&deployment) {
                facts.deployments.push(deployment);
            }
        }
        "Lease" => facts.leases.push(decode(object, &kind)?),
        _ => {}
    }
    Ok(())
}

fn decode<K: DeserializeOwned>(object: Value, kind: &str) -> Result<K, InputError> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let title = title(kind, None, text("/metadata/name"));
    serde_path_to_error::deserialize(object).map_err(|error| {
        let error_in = InputError::new("", format!("cannot be read: {}", error.inner())).object(title);
        error_in.field(error.path().to_string())
    })
}
