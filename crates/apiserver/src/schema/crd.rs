//! A CustomResourceDefinition compiled for admission.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::cel::{self, RuleNode};
use super::crd_checks;
use super::defaults;
use super::field_error::{ErrorKind, FieldError};
use super::prune;
use super::structural::SchemaNode;
use super::validate;

/// What to do about fields the schema does not know (`fieldValidation` of a request).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn.
    Warn,
    /// Refuse the object.
    Strict,
}

/// Definitions whose compiled form is remembered.
const KNOWN_MAX: usize = 64;

/// A CRD that passed its own validation.
#[derive(Debug)]
pub(crate) struct CompiledCrd {
    versions: Vec<CompiledVersion>,
}

/// One version of a CRD.
#[derive(Debug)]
pub(crate) struct CompiledVersion {
    /// The version's name.
    pub(crate) name: String,
    /// The schema tree.
    pub(crate) schema: SchemaNode,
    /// The schema as written, for OpenAPI.
    pub(crate) raw_schema: Value,
    rules: Option<RuleNode>,
}

impl CompiledCrd {
    /// Validates the CRD and compiles its schemas and rules. Every error is reported.
    pub(crate) fn compile(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let mut errors = crd_checks::errors(crd);
        let mut versions = Vec::new();
        let listed = crd
            .pointer("/spec/versions")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for (i, version) in listed.iter().enumerate() {
            let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
            let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
                continue;
            };
            match CompiledVersion::compile(version, schema, &path) {
                Ok(compiled) => versions.push(compiled),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() {
            Ok(Self { versions })
        } else {
            Err(errors)
        }
    }

    /// The same from what this process compiled before: the servers of one process are mostly given the same definitions.
    pub(crate) fn shared(crd: &Value) -> Result<Arc<Self>, Vec<FieldError>> {
        static KNOWN: Mutex<BTreeMap<String, Arc<CompiledCrd>>> = Mutex::new(BTreeMap::new());
        let part = |path| crd.pointer(path).map(ToString::to_string).unwrap_or_default();
        let text = part("/metadata/name") + &part("/spec");
        if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&text) {
            return Ok(Arc::clone(known));
        }
        let compiled = Arc::new(Self::compile(crd)?);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(text, Arc::clone(&compiled));
        Ok(compiled)
    }

    /// The version of this name.
    pub(crate) fn version(&self, name: &str) -> Option<&CompiledVersion> {
        self.versions.iter().find(|v| v.name == name)
    }
}

impl CompiledVersion {
    fn compile(version: &Value, raw: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let schema = SchemaNode::parse(raw, path)?;
        let mut errors = Vec::new();
        crd_checks::schema_errors(&schema, path, &mut errors);
        let rules = match RuleNode::compile(raw, path) {
            Ok(rules) => rules,
            Err(found) => {
                errors.extend(found);
                None
            }
        };
        if !errors.is_empty() {
            return Err(errors);
        }
        let name = version
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        Ok(Self {
            name,
            schema,
            raw_schema: raw.clone(),
            rules,
        })
    }

    /// Prunes, defaults and validates a new object in place; returns warnings.
    ///
    /// The caller has removed `status` where that is a subresource, and validates `metadata` itself.
    pub(crate) fn admit_create(
        &self,
        object: &mut Value,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Vec<FieldError>> {
        let warnings = self.shape(object, validation)?;
        self.judge(object, None)?;
        Ok(warnings)
    }

    /// Prunes, defaults and validates a changed object in place; returns warnings.
    ///
    /// `new` is the whole object as it would be stored: for a status update the caller has taken everything else from
    /// `old`. Values that did not change are not judged again; transition rules see both.
    pub(crate) fn admit_update(
        &self,
        new: &mut Value,
        old: &Value,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Vec<FieldError>> {
        let warnings = self.shape(new, validation)?;
        self.judge(new, Some(old))?;
        Ok(warnings)
    }

    /// Fills in defaults, as a read of an object stored before the default existed does.
    pub(crate) fn default_in_place(&self, object: &mut Value) {
        defaults::apply(object, &self.schema);
    }

    /// Prunes unknown fields and nulls, and sets defaults. Returns warnings about unknown fields; with strict validation they are errors.
    fn shape(&self, object: &mut Value, validation: FieldValidation) -> Result<Vec<String>, Vec<FieldError>> {
        let unknown = prune::unknown_fields(object, &self.schema);
        let text = |path: &String| format!("unknown field {path:?}");
        if validation == FieldValidation::Strict && !unknown.is_empty() {
            let error = |path: &String| FieldError::new(ErrorKind::UnknownField, path, None, text(path));
            return Err(unknown.iter().map(error).collect());
        }
        prune::nulls(object, &self.schema);
        self.default_in_place(object);
        if validation == FieldValidation::Warn {
            Ok(unknown.iter().map(text).collect())
        } else {
            Ok(Vec::new())
        }
    }

    /// Validates an object against schema and CEL rules. The rules are skipped if schema errors make them meaningless.
    fn judge(&self, object: &Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
        let mut errors = validate::errors(object, old, &self.schema, "");
        if errors.iter().any(FieldError::blocks_rules) {
            // API-025
            errors.push(FieldError::invalid(
                "<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else if let Some(rules) = &self.rules {
            errors.extend(cel::errors(object, old, rules, &self.schema));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}
