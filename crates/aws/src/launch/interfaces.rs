//! Network interfaces of a launch template (AWS-163, AWS-168 to AWS-173).

use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::{ConnectionTracking, InterfaceType};

/// One network interface of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceRequest {
    /// Index of the network card; not sent for the default interface.
    pub network_card_index: Option<i32>,
    /// Device index on the card.
    pub device_index: i32,
    /// `interface`, `efa` or `efa-only`; not sent for the default interface.
    pub interface_type: Option<&'static str>,
    /// Security groups.
    pub security_group_ids: Vec<String>,
    /// Whether the instance gets a public address.
    pub associate_public_ip_address: Option<bool>,
    /// Number of IPv4 prefixes.
    pub ipv4_prefix_count: Option<i32>,
    /// Number of IPv6 prefixes.
    pub ipv6_prefix_count: Option<i32>,
    /// Whether the first IPv6 address is the primary one.
    pub primary_ipv6: Option<bool>,
    /// Number of IPv6 addresses.
    pub ipv6_address_count: Option<i32>,
    /// How long idle connections are tracked.
    pub connection_tracking: Option<ConnectionTracking>,
}

/// The interfaces: those the class lists; else those that EFA needs; else one.
pub fn interfaces(
    spec: &EC2NodeClassSpec,
    security_group_ids: &[String],
    efa_count: i64,
    is_ipv6: bool,
) -> Vec<InterfaceRequest> {
    let plain = InterfaceRequest {
        security_group_ids: security_group_ids.to_vec(),
        ..InterfaceRequest::default()
    };
    let with_addresses = |interface: InterfaceRequest| InterfaceRequest {
        associate_public_ip_address: spec.associate_public_ip_address,
        ipv4_prefix_count: spec.ip_prefix_count.filter(|_| !is_ipv6),
        ipv6_prefix_count: spec.ip_prefix_count.filter(|_| is_ipv6),
        primary_ipv6: is_ipv6.then_some(true),
        ipv6_address_count: is_ipv6.then_some(1),
        connection_tracking: spec.connection_tracking,
        ..interface
    };
    if !spec.interfaces().is_empty() {
        let listed = spec.interfaces().iter().map(|one| {
            let interface = InterfaceRequest {
                network_card_index: Some(one.network_card_index),
                device_index: one.device_index,
                interface_type: Some(one.interface_type.as_str()),
                ..plain.clone()
            };
            // An EFA-only interface has no addresses.
            match one.interface_type {
                InterfaceType::EfaOnly => interface,
                InterfaceType::Interface => with_addresses(interface),
            }
        });
        return listed.collect();
    }
    if efa_count > 0 {
        let count = i32::try_from(efa_count).unwrap_or(i32::MAX);
        let efa = (0..count).map(|card| InterfaceRequest {
            network_card_index: Some(card),
            // On cards other than the first, device 0 does not exist.
            device_index: i32::from(card != 0),
            interface_type: Some("efa"),
            ..plain.clone()
        });
        return efa.map(with_addresses).collect();
    }
    vec![with_addresses(plain)]
}
