//! Region, prices and reservations of EC2 instance types, as the command line says.

use crate::args::Ec2Args;
use crate::manifests::InputError;
use crate::messages::say;
use kerf_aws::instance_type::ResolveSettings;
use kerf_aws::offline::OfflineSettings;
use kerf_aws::pricing::{PriceBook, SpotPrices, has_builtin_prices, parse_price_table};

/// Reads the settings; what is wrong with them is added to `errors`. A region without prices is said to have those of us-east-1.
pub(crate) fn ec2_settings(args: &Ec2Args, errors: &mut Vec<InputError>) -> Option<OfflineSettings> {
    let region = args.region.as_str();
    let mut prices = PriceBook::new(region, SpotPrices::Modelled);
    let mut given = false;
    if let Some(path) = &args.prices {
        let name = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let error = InputError::new(name, format!("cannot be read: {error}"));
                errors.push(error.remedy("check the path given with --prices"));
                return None;
            }
        };
        let (mut tables, wrong) = parse_price_table(&text);
        if let Some(line) = wrong.first() {
            let error = InputError::new(name, format!("line {line} is no price"));
            errors.push(error.remedy("write region,instance_type,currency,price_per_hour below a heading"));
            return None;
        }
        if let Some(table) = tables.remove(region) {
            prices.merge_on_demand(table);
            given = true;
        }
    }
    if !given && !has_builtin_prices(region) {
        say!("note: there are no prices of {region}; those of us-east-1 stand in; --prices reads others");
    }
    let resolve = ResolveSettings {
        vm_memory_overhead_percent: args.vm_memory_overhead_percent,
        reserved_enis: args.reserved_enis,
        node_class_cel: args.aws_feature_gates.node_class_cel,
        ..ResolveSettings::new(region)
    };
    Some(OfflineSettings {
        resolve,
        prices,
        gates: args.aws_feature_gates,
    })
}
