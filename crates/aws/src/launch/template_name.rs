//! Names of launch templates (AWS-152 to AWS-154).

use super::interfaces::InterfaceRequest;
use super::template::TemplateData;
use kerf_api::hash::{StructHash, list, primitive, string_map};

/// Beginning of every name.
const PREFIX: &str = "karpenter.k8s.aws/";

/// The name of a template: a hash of its content, the class and the cluster, so that equal templates are found again and classes never share
/// one. The order of lists does not count.
pub fn template_name(cluster: &str, node_class: &str, data: &TemplateData) -> String {
    let debug = |value: &dyn std::fmt::Debug| Some(primitive(format!("{value:?}").as_bytes()));
    let mut hash = StructHash::new("LaunchTemplate");
    hash.field("Cluster", Some(primitive(cluster.as_bytes())));
    hash.field("NodeClass", Some(primitive(node_class.as_bytes())));
    let disks = data.block_devices.iter().enumerate();
    let disks = disks.map(|(at, disk)| primitive(format!("{at} {disk:?}").as_bytes()));
    hash.field("BlockDevices", Some(list(disks)));
    hash.field("NestedVirtualization", debug(&data.nested_virtualization));
    hash.field("InstanceProfile", debug(&data.instance_profile));
    hash.field("Monitoring", debug(&data.monitoring));
    hash.field("UserData", Some(primitive(data.user_data.as_bytes())));
    hash.field("ImageId", Some(primitive(data.image_id.as_bytes())));
    hash.field("Metadata", debug(&data.metadata));
    let interfaces = data.interfaces.iter().map(interface).enumerate();
    let interfaces = interfaces.map(|(at, hash)| primitive(format!("{at} {hash}").as_bytes()));
    hash.field("Interfaces", Some(list(interfaces)));
    hash.field("Placement", debug(&data.placement));
    hash.field("Enclaves", debug(&data.enclaves));
    hash.field("Reservation", debug(&data.reservation));
    hash.field("Market", debug(&data.market));
    hash.field("TaggedResources", debug(&data.tagged_resources));
    hash.field("Tags", Some(string_map(&data.tags)));
    format!("{PREFIX}{}", hash.finish())
}

fn interface(interface: &InterfaceRequest) -> u64 {
    let mut sorted = interface.clone();
    sorted.security_group_ids.sort();
    primitive(format!("{sorted:?}").as_bytes())
}
