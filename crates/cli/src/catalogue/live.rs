//! `kerf catalogue --live`: the instance types as the account has them now.

use crate::args::CatalogueArgs;
use crate::exit::Exit;
use crate::messages::say;
use kerf_api::EC2NodeClass;

/// Returns the error that this build cannot call AWS.
#[cfg(not(feature = "aws"))]
pub(super) fn run(_: &CatalogueArgs, _: &EC2NodeClass) -> anyhow::Result<Exit> {
    say!(
        "error: --live asks AWS, which this build cannot: `cargo build --release --features aws` makes one that can; without --live, the types \
         built in are printed"
    );
    Ok(Exit::BadInput)
}

/// Asks AWS and prints the answer.
#[cfg(feature = "aws")]
pub(super) fn run(args: &CatalogueArgs, class: &EC2NodeClass) -> anyhow::Result<Exit> {
    use anyhow::Context as _;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let region = args.ec2.region.as_deref().filter(|region| !region.is_empty());
        let connection = kerf_aws::sdk::connect_in(region, &kerf_runtime::Metrics::default()).await?;
        of_account(args, class, &connection.services, &connection.region).await
    })
}

/// Prints the instance types that an account has for a class.
#[cfg(feature = "aws")]
async fn of_account(
    args: &CatalogueArgs,
    class: &EC2NodeClass,
    services: &kerf_aws::services::Services,
    region: &str,
) -> anyhow::Result<Exit> {
    use kerf_aws::pricing::{PriceBook, SpotPrices};
    let settings = crate::decision::settings_in(&args.ec2, region, PriceBook::new(region, SpotPrices::Unknown));
    if let Some((_, message)) = kerf_aws::offline::kubelet_problem(class, &settings) {
        say!("error: EC2NodeClass/{}: {message}", class.shown_name());
        return Ok(Exit::BadInput);
    }
    let interner = std::sync::Arc::default();
    let now = jiff::Timestamp::now();
    let live = kerf_aws::live::live_catalogue(services, class, &settings, now, &interner).await?;
    for note in live.notes {
        say!("note: {note}");
    }
    super::run::print(args.output, &live.catalogue, &interner)
}
