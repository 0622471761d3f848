//! What all cloud providers share: the provider trait, its errors, and what is computed from catalogues.
//!
//! The input is NodeClaims and NodePools; the output is launched instances, instance types with their offerings
//! ([`Catalogue`](kerf_model::instance_type::Catalogue)) and typed errors ([`CloudError`]). Decorators wrap a provider: node
//! overlays, call metrics, faults for tests. Units are those of the model: milli-cores, bytes, 10⁻¹² dollars per hour.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

mod build;
mod choose;
mod claim;
mod decorator;
mod error;
mod fake;
mod faulty;
mod hook;
mod interruption;
mod metered;
mod modelled_spot;
mod overlaid;
mod overlay;
mod pool_overlays;
mod price_change;
mod provider;
mod requirement;
mod signals;
mod unavailable;
mod vocabulary;

pub use build::{TypeBuilder, plain_offering};
pub use choose::{Choice, Randomness, cheapest, pick, usable};
pub use claim::{claim_name, launch_id};
pub use decorator::Decorator;
pub use error::{CloudError, LaunchFailure};
pub use fake::{FAKE_NODE_CLASS, FakeCloud, quantities};
pub use faulty::{Fault, FaultRates, FaultyProvider};
pub use hook::{HookOutcome, RegistrationHook};
pub use interruption::{Interruption, InterruptionAction, InterruptionKind};
pub use metered::{Call, CallObserver, MeteredProvider, Method};
pub use modelled_spot::modelled_spot_price;
pub use overlaid::OverlayProvider;
pub use overlay::{Evaluation, OverlayPool, OverlayStatus, PoolOverlay, evaluate};
pub use pool_overlays::PoolOverlays;
pub use price_change::{PriceChange, PriceChangeError};
pub use provider::{CloudProvider, DriftReason, Launched, Profile, RepairPolicy};
pub use requirement::{requirement, requirements};
pub use signals::{REDELIVERY, SignalQueue, redelivery};
pub use unavailable::{Exhausted, UNAVAILABLE_FOR, UnavailableOfferings};
pub use vocabulary::Vocabulary;
