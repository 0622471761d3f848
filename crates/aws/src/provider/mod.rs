//! The provider: claims in, instances out.

mod aws_cloud;
mod claim_reader;
mod class_reader;
mod client_ca;
mod cloud_provider;
mod cluster_facts;
mod discovery;
mod ended;
mod ended_classes;
mod kept_memory;
mod launch_instance;
mod partition_hook;
mod signals;
mod template;

pub use aws_cloud::{AwsCloud, AwsParts};
pub use client_ca::client_ca;
pub use cloud_provider::{AwsProvider, NODE_CLASS, PROVIDER_NAME, profile};
pub use cluster_facts::ClusterFacts;
pub use discovery::{DiscoveryError, discover_cluster, read_version};
pub use partition_hook::PlacementGroupRegistrationHook;
pub(crate) use template::{TemplateError, TemplateRequest};
