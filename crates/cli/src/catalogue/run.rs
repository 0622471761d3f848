//! Reads the class, computes its instance types and prints them.

use super::{report, table};
use crate::args::{CatalogueArgs, CatalogueOutput};
use crate::decision::{ec2_settings, from_files, print_errors};
use crate::exit::Exit;
use crate::messages::say;
use jiff::Timestamp;
use kerf_api::{EC2NodeClass, EC2NodeClassSpec};
use kerf_aws::offline::{guesses, kubelet_problem, offline_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use std::io::{self, Write};

/// Runs `kerf catalogue`.
pub(crate) fn run(args: &CatalogueArgs) -> anyhow::Result<Exit> {
    let Some(class) = read_class(args) else {
        return Ok(Exit::BadInput);
    };
    if args.live {
        return super::live::run(args, &class);
    }
    let mut errors = Vec::new();
    let settings = ec2_settings(&args.ec2, &mut errors);
    print_errors(&errors);
    let (Some(settings), true) = (settings, errors.is_empty()) else {
        return Ok(Exit::BadInput);
    };
    if let Some((_, message)) = kubelet_problem(&class, &settings) {
        say!("error: EC2NodeClass/{}: {message}", class.shown_name());
        return Ok(Exit::BadInput);
    }
    let now = Timestamp::now();
    for guess in guesses(&class, &settings, now) {
        say!("note: EC2NodeClass/{}: {guess}", class.shown_name());
    }
    let interner = Interner::default();
    let catalogue = offline_catalogue(&class, &settings, now, &interner);
    print(args.output, &catalogue, &interner)
}

/// The requested class, or the default one; `None` if it cannot be read. Prints the errors.
fn read_class(args: &CatalogueArgs) -> Option<EC2NodeClass> {
    let Some(path) = &args.nodeclass else {
        return Some(default_class());
    };
    let input = from_files(std::slice::from_ref(path), true, args.ec2.aws_feature_gates);
    print_errors(&input.errors);
    let mut classes = input.cluster.ec2_classes;
    if classes.len() != 1 && input.errors.is_empty() {
        let count = classes.len();
        say!(
            "error: {} has {count} EC2NodeClasses; give a file with one",
            path.display()
        );
    }
    let class = classes.pop();
    class.filter(|_| classes.is_empty() && input.errors.is_empty())
}

/// Prints the instance types.
pub(super) fn print(output: CatalogueOutput, catalogue: &Catalogue, interner: &Interner) -> anyhow::Result<Exit> {
    let text = match output {
        CatalogueOutput::Table => table::render(&report::reports(catalogue, interner)),
        CatalogueOutput::Json => serde_json::to_string_pretty(&report::reports(catalogue, interner))? + "\n",
        CatalogueOutput::Kwok => serde_json::to_string_pretty(&report::kwok(catalogue, interner))? + "\n",
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// Amazon Linux 2023 with default settings.
fn default_class() -> EC2NodeClass {
    let spec = EC2NodeClassSpec {
        ami_family: Some(kerf_api::AmiFamily::Al2023.as_str().to_owned()),
        ..EC2NodeClassSpec::default()
    };
    EC2NodeClass::new("default", spec)
}
