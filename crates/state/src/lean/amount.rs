//! Amounts of resources as an object writes them, legible or not.

use kerf_units::quantity::Quantity;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One amount, or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount(pub Result<Quantity, Box<str>>);

/// Amounts by resource name, in the order written.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Amounts(pub Vec<(String, Amount)>);

impl Amounts {
    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The amount of one resource.
    pub fn get(&self, name: &str) -> Option<&Amount> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, amount)| amount)
    }

    /// In the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Amount)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }
}

impl Amount {
    fn read(text: &str) -> Self {
        Self(text.parse::<Quantity>().map_err(|error| error.to_string().into()))
    }

    fn refused(what: &str) -> Self {
        Self(Err(
            format!("{what} is no quantity; write one such as 500m or 2Gi").into()
        ))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl<'de> Visitor<'de> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 500m or 2Gi")
    }

    fn visit_str<E>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount::read(text))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount::read(&number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount::read(&number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount::read(&number.to_string()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Amount, E> {
        Ok(Amount::refused("a boolean"))
    }

    fn visit_unit<E>(self) -> Result<Amount, E> {
        Ok(Amount::refused("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Amount, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Amount::refused("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Amount, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Amount::refused("a mapping"))
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Amounts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping from resource names to quantities")
            }

            fn visit_unit<E>(self) -> Result<Amounts, E> {
                Ok(Amounts::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Amounts, A::Error> {
                let mut all = Amounts(Vec::with_capacity(entries.size_hint().unwrap_or(4).min(16)));
                while let Some(entry) = entries.next_entry()? {
                    all.0.push(entry);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_illegible_amount_does_not_fail_its_neighbours() {
        let amounts: Amounts =
            serde_json::from_str(r#"{"cpu":"lots","memory":"1Gi","pods":3,"x":1.5,"y":[1],"z":{"a":1},"n":null}"#)
                .unwrap();
        let legible: Vec<_> = amounts
            .iter()
            .filter(|(_, a)| a.0.is_ok())
            .map(|(name, _)| name)
            .collect();
        assert_eq!(legible, ["memory", "pods", "x"]);
        assert!(amounts.get("cpu").unwrap().0.as_ref().unwrap_err().contains("lots"));
    }
}
