//! Reading catalogues in KWOK's JSON format (KWK-011 to KWK-019).

use crate::type_definition::{OfferingDefinition, TypeDefinition};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use kerf_model::requirement::Operator;
use kerf_units::quantity::Quantity;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// How much of what is wrong with a file counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadMode {
    /// As the controller reads it: missing keys take zero values, and only a value of the wrong kind is an error (KWK-013).
    Lenient,
    /// As `kerf simulate` reads it: whatever makes a type useless or a price absurd is an error too.
    Strict,
}

/// One fault of a catalogue file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogueError {
    /// The file's name as the user gave it.
    pub file: String,
    /// Index of the element from zero, and its name where it has one; `None` for the whole file.
    pub element: Option<(usize, Option<String>)>,
    /// The field, such as `offerings[2].Price`; `None` for the whole element or file.
    pub field: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub remedy: &'static str,
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some((index, name)) = &self.element {
            write!(f, "element {index}")?;
            if let Some(name) = name {
                write!(f, " ({name})")?;
            }
            f.write_str(": ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// Every fault of a file, in the order of the file; never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct CatalogueErrors(pub Vec<CatalogueError>);

impl fmt::Display for CatalogueErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

/// Reads a catalogue; `file` is only named in errors.
pub fn read_catalogue(
    text: &str,
    file: &str,
    interner: &Interner,
    mode: ReadMode,
) -> Result<Catalogue, CatalogueErrors> {
    let mut reader = Reader {
        file,
        mode,
        element: None,
        errors: Vec::new(),
    };
    let definitions = reader.file(text);
    if !reader.errors.is_empty() {
        return Err(CatalogueErrors(reader.errors));
    }
    let types = definitions
        .iter()
        .map(|definition| definition.build(interner))
        .collect();
    Ok(Catalogue { types })
}

/// Above this price per hour a number is a mistake: the dearest machine anyone rents by the hour costs a few hundred.
const PRICE_ABSURD: f64 = 10_000.0;

const PRICE_REMEDY: &str = "give the dollars an hour costs, 0 or more and below 10000";
const QUANTITY_REMEDY: &str = "write a quantity such as \"4\", \"500m\" or \"16Gi\"";
const REQUIREMENT_REMEDY: &str = "write {\"key\": …, \"operator\": \"In\", \"values\": [one]}";
const CAPACITY_TYPES: [&str; 3] = ["on-demand", "spot", "reserved"];
const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

struct Reader<'a> {
    file: &'a str,
    mode: ReadMode,
    element: Option<(usize, Option<String>)>,
    errors: Vec<CatalogueError>,
}

/// A key's value in an object, without regard to case; of several the last counts.
fn lookup<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    let found = object.iter().rfind(|(name, _)| name.eq_ignore_ascii_case(key));
    found.map(|(_, value)| value).filter(|value| !value.is_null())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl Reader<'_> {
    fn fault(&mut self, field: &str, problem: impl Into<String>, remedy: &'static str) {
        self.errors.push(CatalogueError {
            file: self.file.to_owned(),
            element: self.element.clone(),
            field: (!field.is_empty()).then(|| field.to_owned()),
            problem: problem.into(),
            remedy,
        });
    }

    fn strict(&mut self, wrong: bool, field: &str, problem: impl Into<String>, remedy: &'static str) {
        if wrong && self.mode == ReadMode::Strict {
            self.fault(field, problem, remedy);
        }
    }

    fn file(&mut self, text: &str) -> Vec<TypeDefinition> {
        let elements = match serde_json::from_str(text) {
            Ok(Value::Array(elements)) => elements,
            Ok(Value::Null) if self.mode == ReadMode::Lenient => Vec::new(),
            Ok(other) => {
                self.fault(
                    "",
                    format!("holds {}", kind_of(&other)),
                    "write an array of instance types",
                );
                return Vec::new();
            }
            Err(error) => {
                self.fault(
                    "",
                    format!("is not JSON: {error}"),
                    "write an array of instance types in JSON",
                );
                return Vec::new();
            }
        };
        self.strict(elements.is_empty(), "", "holds no instance types", "write at least one");
        let definitions = elements.iter().enumerate();
        let definitions: Vec<(usize, TypeDefinition)> = definitions
            .filter_map(|(at, value)| Some((at, self.element(at, value)?)))
            .collect();
        self.duplicates(&definitions);
        definitions.into_iter().map(|(_, definition)| definition).collect()
    }

    fn duplicates(&mut self, definitions: &[(usize, TypeDefinition)]) {
        let mut first = BTreeMap::new();
        for (at, definition) in definitions {
            let earlier = *first.entry(&definition.name).or_insert(at);
            self.element = Some((*at, Some(definition.name.clone())));
            let repeated = earlier != at && !definition.name.is_empty();
            self.strict(
                repeated,
                "name",
                format!("repeats the name of element {earlier}"),
                "give each type its own name",
            );
        }
    }

    fn element(&mut self, index: usize, value: &Value) -> Option<TypeDefinition> {
        self.element = Some((index, None));
        let Value::Object(object) = value else {
            self.fault(
                "",
                format!("is {}", kind_of(value)),
                "write an object with name, resources and offerings",
            );
            return None;
        };
        let name = self.string(object, "name", "name");
        self.element = Some((index, Some(name.clone()).filter(|name| !name.is_empty())));
        self.strict(name.is_empty(), "name", "is missing", "name the instance type");
        let architecture = self.string(object, "architecture", "architecture");
        self.strict(
            architecture.is_empty(),
            "architecture",
            "is missing",
            "write amd64 or arm64",
        );
        let operating_systems = self.strings(object, "operatingSystems", "operatingSystems");
        self.strict(
            operating_systems.is_empty(),
            "operatingSystems",
            "is missing or empty",
            "write [\"linux\"]",
        );
        Some(TypeDefinition {
            resources: self.resources(object),
            offerings: self.offerings(object),
            name,
            architecture,
            operating_systems,
        })
    }

    fn string(&mut self, object: &Map<String, Value>, key: &str, field: &str) -> String {
        match lookup(object, key) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => {
                self.fault(field, format!("is {}", kind_of(other)), "write a string");
                String::new()
            }
        }
    }

    fn strings(&mut self, object: &Map<String, Value>, key: &str, field: &str) -> Vec<String> {
        let items = self.array(object, key, field, "write an array of strings");
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Value::String(text) => texts.push(text.clone()),
                other => self.fault(field, format!("holds {}", kind_of(other)), "write an array of strings"),
            }
        }
        texts
    }

    fn array<'v>(
        &mut self,
        object: &'v Map<String, Value>,
        key: &str,
        field: &str,
        remedy: &'static str,
    ) -> &'v [Value] {
        match lookup(object, key) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.fault(field, format!("is {}", kind_of(other)), remedy);
                &[]
            }
        }
    }

    fn resources(&mut self, object: &Map<String, Value>) -> Vec<(String, Quantity)> {
        let map = match lookup(object, "resources") {
            Some(Value::Object(map)) => map,
            Some(other) => {
                self.fault(
                    "resources",
                    format!("is {}", kind_of(other)),
                    "write an object of quantities",
                );
                return Vec::new();
            }
            None => {
                self.strict(
                    true,
                    "resources",
                    "is missing",
                    "write an object with at least cpu and memory",
                );
                return Vec::new();
            }
        };
        for needed in ["cpu", "memory"] {
            self.strict(
                !map.contains_key(needed),
                &format!("resources.{needed}"),
                "is missing",
                QUANTITY_REMEDY,
            );
        }
        let mut resources = Vec::with_capacity(map.len());
        for (name, value) in map {
            let field = format!("resources.{name}");
            match Quantity::deserialize(value) {
                Ok(amount) => {
                    let needed = name == "cpu" || name == "memory";
                    self.strict(
                        amount.is_negative(),
                        &field,
                        format!("is negative ({amount})"),
                        QUANTITY_REMEDY,
                    );
                    self.strict(needed && amount.is_zero(), &field, "is zero", QUANTITY_REMEDY);
                    resources.push((name.clone(), amount));
                }
                Err(error) => self.fault(&field, format!("is no quantity: {error}"), QUANTITY_REMEDY),
            }
        }
        resources
    }

    fn offerings(&mut self, object: &Map<String, Value>) -> Vec<OfferingDefinition> {
        let items = self.array(object, "offerings", "offerings", "write an array of offerings");
        self.strict(
            items.is_empty(),
            "offerings",
            "is missing or empty",
            "write at least one offering",
        );
        let mut seen = BTreeMap::new();
        let mut offerings = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let field = format!("offerings[{at}]");
            let Value::Object(offering) = item else {
                self.fault(
                    &field,
                    format!("is {}", kind_of(item)),
                    "write an object with Price and Requirements",
                );
                continue;
            };
            let price = self.price(offering, &format!("{field}.Price"));
            let reservation_capacity = self.reservation_capacity(offering, &format!("{field}.ReservationCapacity"));
            if lookup(offering, "available").is_some_and(|value| !value.is_boolean()) {
                self.fault(
                    &format!("{field}.Available"),
                    "is no boolean",
                    "write true or leave it out",
                );
            }
            let requirements = self.requirements(offering, &format!("{field}.Requirements"));
            let first = seen.entry(format!("{requirements:?}")).or_insert(at);
            let duplicate = *first != at;
            self.strict(
                duplicate,
                &field,
                format!("repeats the requirements of offerings[{first}]"),
                "remove one of them",
            );
            offerings.push(OfferingDefinition {
                price,
                reservation_capacity,
                requirements,
            });
        }
        offerings
    }

    fn price(&mut self, offering: &Map<String, Value>, field: &str) -> Price {
        let number = match lookup(offering, "price") {
            None => {
                self.strict(true, field, "is missing", PRICE_REMEDY);
                return Price::ZERO;
            }
            Some(Value::Number(number)) => number.as_f64().unwrap_or(f64::MAX),
            Some(other) => {
                self.fault(field, format!("is {}", kind_of(other)), PRICE_REMEDY);
                return Price::ZERO;
            }
        };
        self.strict(number < 0.0, field, format!("is negative ({number})"), PRICE_REMEDY);
        self.strict(
            number >= PRICE_ABSURD,
            field,
            format!("is absurd ({number})"),
            PRICE_REMEDY,
        );
        let bound = if number < 0.0 { Price::ZERO } else { Price::MAX };
        Price::from_per_hour(number).unwrap_or(bound)
    }

    fn reservation_capacity(&mut self, offering: &Map<String, Value>, field: &str) -> u32 {
        const REMEDY: &str = "write how many instances the reservation has left";
        let number = match lookup(offering, "reservationCapacity") {
            None => return 0,
            Some(value) => value.as_i64(),
        };
        let Some(number) = number else {
            self.fault(field, "is no integer", REMEDY);
            return 0;
        };
        self.strict(number < 0, field, format!("is negative ({number})"), REMEDY);
        u32::try_from(number.max(0)).unwrap_or(u32::MAX)
    }

    fn requirements(&mut self, offering: &Map<String, Value>, field: &str) -> Vec<(String, Operator, Vec<String>)> {
        let mut requirements = Vec::new();
        for (at, item) in self
            .array(offering, "requirements", field, REQUIREMENT_REMEDY)
            .iter()
            .enumerate()
        {
            let field = format!("{field}[{at}]");
            let Value::Object(object) = item else {
                self.fault(&field, format!("is {}", kind_of(item)), REQUIREMENT_REMEDY);
                continue;
            };
            let key = self.string(object, "key", &format!("{field}.key"));
            self.strict(
                key.is_empty(),
                &format!("{field}.key"),
                "is missing",
                REQUIREMENT_REMEDY,
            );
            let operator = self.string(object, "operator", &format!("{field}.operator"));
            let values = self.strings(object, "values", &format!("{field}.values"));
            match Operator::parse(&operator) {
                Some(operator) => requirements.push((key, operator, values)),
                None => self.fault(
                    &format!("{field}.operator"),
                    format!("is {operator:?}"),
                    REQUIREMENT_REMEDY,
                ),
            }
        }
        if self.mode == ReadMode::Strict {
            self.placement(offering, &requirements, field);
        }
        requirements
    }

    /// An offering without zone or capacity type can host nothing that names either (KWK-017).
    fn placement(
        &mut self,
        offering: &Map<String, Value>,
        requirements: &[(String, Operator, Vec<String>)],
        field: &str,
    ) {
        for (key, old) in [(ZONE, "zone"), (CAPACITY_TYPE, "capacityType")] {
            let Some((_, operator, values)) = requirements.iter().find(|(name, _, _)| name == key) else {
                let ignored = lookup(offering, old).is_some();
                let hint = if ignored {
                    format!(" (the field {old} does not count)")
                } else {
                    String::new()
                };
                self.fault(field, format!("has no requirement on {key}{hint}"), REQUIREMENT_REMEDY);
                continue;
            };
            if *operator != Operator::In || values.len() != 1 {
                self.fault(
                    field,
                    format!("does not name exactly one value of {key}"),
                    REQUIREMENT_REMEDY,
                );
            }
            let unknown = values
                .iter()
                .find(|value| key == CAPACITY_TYPE && !CAPACITY_TYPES.contains(&value.as_str()));
            if let Some(unknown) = unknown {
                self.fault(
                    field,
                    format!("has the unknown capacity type {unknown:?}"),
                    "use on-demand, spot or reserved",
                );
            }
        }
    }
}
