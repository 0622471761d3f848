//! The Laws, as far as source text can show them. Each module is one law; [`source`] reads and lexes the tree.

mod api_writes;
mod bill_of_materials;
mod broken_rules;
mod cargo;
mod comments;
mod coverage;
mod cycles;
mod files;
mod glossary;
mod identities;
mod ignored_tests;
mod independence;
mod layers;
mod links;
mod lints;
mod names;
mod sections;
mod source;
mod statics;
mod test_binaries;
mod verdict;
