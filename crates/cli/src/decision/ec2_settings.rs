//! Region, prices and reservations of EC2 instance types, from the command line.

use crate::ec2_args::Ec2Args;
use crate::manifests::InputError;
use crate::messages::say;
use kerf_aws::instance_type::ResolveSettings;
use kerf_aws::offline::OfflineSettings;
use kerf_aws::pricing::{PriceBook, SpotPrices, has_builtin_prices, parse_price_table};
use kerf_aws::reservation::described_counts;
use kerf_model::price::Price;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads the settings; adds their faults to `errors`. For a region without prices, prints a note that those of us-east-1 are used.
pub(crate) fn ec2_settings(args: &Ec2Args, errors: &mut Vec<InputError>) -> Option<OfflineSettings> {
    let region = args.region();
    let mut prices = PriceBook::new(region, SpotPrices::Modelled);
    match &args.prices {
        Some(path) => prices.merge_on_demand(read_prices(path, region).map_err(|error| errors.push(error)).ok()?),
        None if has_builtin_prices(region) => {}
        None => say!("note: there are no prices of {region}; those of us-east-1 stand in; --prices reads others"),
    }
    let counts = args.capacity_reservations.as_deref().map(read_reservations).transpose();
    let counts = counts.map_err(|error| errors.push(error)).ok()?;
    Some(OfflineSettings {
        reservation_counts: counts,
        ..settings_in(args, region, prices)
    })
}

/// The settings that need no file.
pub(crate) fn settings_in(args: &Ec2Args, region: &str, prices: PriceBook) -> OfflineSettings {
    let resolve = ResolveSettings {
        vm_memory_overhead_percent: args.vm_memory_overhead_percent,
        reserved_enis: args.reserved_enis,
        node_class_cel: args.aws_feature_gates.node_class_cel,
        ..ResolveSettings::new(region)
    };
    OfflineSettings {
        gates: args.aws_feature_gates,
        learn_memory: args.learn_memory,
        ..OfflineSettings::new(resolve, prices)
    }
}

fn read(path: &Path, flag: &str) -> Result<String, InputError> {
    std::fs::read_to_string(path).map_err(|error| {
        let error = InputError::new(path.display().to_string(), format!("cannot be read: {error}"));
        error.remedy(format!("check the path given with {flag}"))
    })
}

/// The on-demand prices of a region. A file that has none is of another region, and the prices built in are not meant.
fn read_prices(path: &Path, region: &str) -> Result<BTreeMap<String, Price>, InputError> {
    let wrong = |problem: String| InputError::new(path.display().to_string(), problem);
    let (mut tables, lines) = parse_price_table(&read(path, "--prices")?);
    if let Some(line) = lines.first() {
        let error = wrong(format!("line {line} is no price"));
        return Err(error.remedy("write region,instance_type,currency,price_per_hour below a heading"));
    }
    tables.remove(region).ok_or_else(|| {
        let known: Vec<&str> = tables.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "no region".to_owned(),
            known => known.join(", "),
        };
        let error = wrong(format!("has no price of the region {region}, but of {known}"));
        error.remedy("add lines of the region, or name another one with --region or AWS_REGION")
    })
}

/// Instances left in reservations, by id.
fn read_reservations(path: &Path) -> Result<BTreeMap<String, u32>, InputError> {
    described_counts(&read(path, "--capacity-reservations")?).map_err(|error| {
        let error = InputError::new(path.display().to_string(), format!("has no reservations: {error}"));
        error.remedy("write the output of aws ec2 describe-capacity-reservations --output json to it")
    })
}
